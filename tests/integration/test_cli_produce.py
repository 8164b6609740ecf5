"""`kclient produce` with wrong lines, and with records from another topic; the command runs in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, TopicPartition
from kclient.cli.consume import consume
from kclient.cli.failures import CommandError
from kclient.cli.produce import produce
from tests.support.seeding import Seeder


@pytest.fixture
def run(bootstrap_servers: str, topic: str, tmp_path: Path) -> Callable[..., None]:
    """Run the command with these lines."""

    def run_it(lines: bytes, **options: Any) -> None:
        file = tmp_path / "lines"
        file.write_bytes(lines)
        produce(topic, file, servers=bootstrap_servers, **options)

    return run_it


def counts(admin: Admin, topic: str) -> list[int]:
    """How many records each partition of a topic has."""
    found = admin.describe_topics([topic])[topic].partitions
    ends = admin.list_offsets({TopicPartition(topic, info.partition): -1 for info in found})
    return [ends[partition].offset for partition in sorted(ends)]


def values(capsysbinary: pytest.CaptureFixture[bytes], topic: str, bootstrap_servers: str) -> list[bytes]:
    """The values in a topic, sorted."""
    capsysbinary.readouterr()
    consume([topic], servers=bootstrap_servers, exit_at_end=True)
    return sorted(capsysbinary.readouterr().out.split())


def test_the_count_is_printed(
    run: Callable[..., None], seed: Seeder, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    seed.create(topic, 1)
    run(b"one\ntwo\n")
    assert capsys.readouterr() == (f"2 records produced to {topic}\n", "")


@pytest.mark.parametrize(
    ("lines", "options", "says"),
    [
        pytest.param(b"k:1\nk:2\nv\nk:4\n", {"key_separator": ":"}, "there is no key separator ':'", id="separator"),
        pytest.param(b'{"value": "1"}\n{"value": "2"}\n{"valeu": 3}\n', {"json": True}, "unknown field", id="json"),
        pytest.param(b'{}\n{}\n{"partition": -1}\n{}\n', {"json": True}, "partition must be 0 or more", id="partition"),
        pytest.param(b"1\n2\n" + b"x" * 2000 + b"\n", {"settings": ["max.request.size=1000"]}, "is more", id="large"),
    ],
)
def test_a_wrong_line_ends_the_command_and_what_was_before_it_is_counted(
    run: Callable[..., None], admin: Admin, seed: Seeder, topic: str, lines: bytes, options: dict[str, Any], says: str
) -> None:
    seed.create(topic, 1)
    with pytest.raises(CommandError) as raised:
        run(lines, **options)
    error, count = str(raised.value).splitlines()
    assert error.startswith("line 3: ")
    assert says in error
    assert error.endswith("; this line and the following ones were not sent")
    assert count == f"2 records produced to {topic}"
    assert counts(admin, topic) == [2]


def test_a_refused_record_is_named_by_its_line_and_the_others_are_produced(
    run: Callable[..., None], admin: Admin, seed: Seeder, topic: str
) -> None:
    seed.create(topic, 1, max_message_bytes="1000")
    with pytest.raises(CommandError) as raised:
        run(b"1\n" + b"x" * 2000 + b"\n3\n", settings=["batch.size=1"])
    error, count = str(raised.value).splitlines()
    assert error.startswith("line 2: MESSAGE_TOO_LARGE")
    assert count == f"2 records produced to {topic}"
    assert counts(admin, topic) == [2]


def test_records_are_copied_to_fewer_partitions_if_their_partitions_are_ignored(
    run: Callable[..., None],
    admin: Admin,
    seed: Seeder,
    topic: str,
    bootstrap_servers: str,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    source = f"{topic}-source"
    seed.create(source, 3)
    seed.create(topic, 1)
    for partition in range(3):
        seed.append(source, [b"%d" % partition], partition=partition)
    consume([source], servers=bootstrap_servers, exit_at_end=True, json=True)
    # In the order of their partitions: the first fits, the second does not.
    lines = b"\n".join(
        sorted(capsysbinary.readouterr().out.splitlines(), key=lambda line: json.loads(bytes(line))["partition"])
    )
    with pytest.raises(CommandError) as raised:
        run(lines, json=True)
    error, count = str(raised.value).splitlines()
    assert error.startswith("line 2: UNKNOWN_TOPIC_OR_PARTITION")
    assert "(--ignore-partition lets the partitioner choose)" in error
    assert count == f"1 record produced to {topic}"
    run(lines, json=True, ignore_partition=True)
    assert values(capsysbinary, topic, bootstrap_servers) == [b"0", b"0", b"1", b"2"]


def test_a_partition_on_the_command_line_goes_before_that_of_the_json(
    run: Callable[..., None], admin: Admin, seed: Seeder, topic: str
) -> None:
    seed.create(topic, 3)
    run(b'{"partition": 0}\n{}\n', json=True, partition=2)
    assert counts(admin, topic) == [0, 0, 2]
    run(b'{"partition": 1}\n', json=True)
    assert counts(admin, topic) == [0, 1, 2]
