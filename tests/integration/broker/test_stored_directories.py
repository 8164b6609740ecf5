"""Data directories of earlier versions: this version opens them, and continues where they ended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, Consumer, Producer, TopicPartition
from refbroker.testing import RefBroker
from tests.support.reading import committed_records
from tests.support.stored_directory import STORED, content, stopped_broker
from tests.support.typed import must

VERSIONS = sorted(path.name for path in STORED.iterdir())


@pytest.fixture(params=VERSIONS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RefBroker]:
    """A broker of this version on the data directory of an earlier one."""
    shutil.copytree(STORED / request.param / "data", tmp_path / "data")
    with stopped_broker(tmp_path / "data") as kafka:
        yield kafka


@pytest.fixture
def expected(request: pytest.FixtureRequest) -> Any:
    return json.loads((STORED / request.node.callspec.params["stored"] / "content.json").read_text())


def test_all_that_clients_saw_is_there(stored: RefBroker, expected: Any) -> None:
    found = content(stored)
    assert found.keys() == expected.keys()
    for part, wanted in expected.items():
        assert found[part] == wanted, part


def test_the_directory_holds_what_it_is_to_hold(expected: Any, stored: RefBroker) -> None:
    files = {path.name for path in (stored.data_dir / "__cluster_metadata-0").iterdir()}
    assert any(name.endswith(".checkpoint") for name in files), "a snapshot of the metadata"
    assert any(path.stat().st_size > 10 for path in stored.data_dir.glob("copied-1/*.snapshot")), "known producers"
    assert {record[0] for record in expected["records"]["codecs"]} == {0, 1, 2, 3, 4}
    # The cleaner has removed three of five records of each key; the last segment it leaves alone.
    assert [record[1] for record in expected["records"]["states"]] == [9, 10, 11, 12, 13, 14]
    assert expected["configs"]["TOPIC states"]["cleanup.policy"] == "compact"
    assert {name: state[0] for name, state in expected["transactions"].items()} == {
        "finished": "COMPLETE_ABORT",
        "open": "ONGOING",
    }
    assert expected["offsets"]["copies"] == {"codecs-1": [9, "", None]}


def test_the_open_transaction_can_be_aborted_and_records_follow(stored: RefBroker) -> None:
    servers = stored.bootstrap_servers
    with Producer(bootstrap_servers=servers, transactional_id="open") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("copied", b"after it", partition=1)
    values = [record.value for record in committed_records(servers, "copied") if record.partition == 1]
    assert values == [b"committed", b"after the open one", b"after it"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_continues_where_it_committed(stored: RefBroker, protocol: str) -> None:
    place = TopicPartition("codecs", 3)
    stored.clock.run()  # a group of the consumer protocol makes no two assignments within a second
    with Consumer(
        "codecs", bootstrap_servers=stored.bootstrap_servers, group_id=f"{protocol} group", group_protocol=protocol
    ) as consumer:
        while place not in consumer.assignment():
            consumer.poll(0.1)
        assert must(consumer.committed([place])[place]).offset == 5
        assert consumer.position(place) in range(5, 16)


def test_topics_can_be_created_beside_the_stored_ones(stored: RefBroker, expected: Any) -> None:
    with Admin(bootstrap_servers=stored.bootstrap_servers) as admin:
        stored.create_topic("new")
        assert admin.list_topics().keys() == {"new", *expected["topics"]}
