"""A broker without free file descriptors: it refuses new partitions and connections, and continues."""

from __future__ import annotations

import contextlib
import gc
import resource
from collections.abc import Iterator

import pytest

from kclient.errors import PolicyViolationError
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.create_partitions import CreatePartitionsRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.broker import Broker
from refbroker.runtime.file_limit import open_files
from refbroker.testing import RefBroker
from tests.support.wire import Wire, produce_request

pytestmark = pytest.mark.not_simulated("sets the limit of open files of the process")

FREE = 400
"""How many files the process may open when a test begins; the broker reserves up to 100 of them."""
MANY = 400
"""More partitions or connections than there is room for."""
POLICY_VIOLATION = PolicyViolationError.code


@pytest.fixture
def kafka() -> Iterator[RefBroker]:
    """A broker in a process that may open few files, of which most are free."""
    # A broker that an earlier test killed frees its files when it is collected: before a test, not during it.
    gc.collect()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with RefBroker(num_partitions=1) as kafka:
        # Other brokers of this process, and what their tests left, may hold hundreds of files.
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + FREE, hard))
        yield kafka
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def wire(kafka: RefBroker) -> Iterator[Wire]:
    with Wire(kafka.bootstrap_servers) as wire:
        yield wire


def create(wire: Wire, **partitions: int) -> dict[str, tuple[int, str | None]]:
    kind = CreateTopicsRequest
    topics = [
        kind.CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in partitions.items()
    ]
    answer = wire.ask(kind(topics=topics, timeout_ms=10_000), 7)
    return {topic.name: (topic.error_code, topic.error_message) for topic in answer.topics}


def connect_often(kafka: RefBroker, stack: contextlib.ExitStack) -> None:
    """Connect until the broker closes the connection."""
    for _ in range(MANY):
        assert stack.enter_context(Wire(kafka.bootstrap_servers)).ask(ApiVersionsRequest(), 0)


def test_partitions_whose_logs_would_take_too_many_files_are_not_made(kafka: RefBroker, wire: Wire) -> None:
    code, text = create(wire, large=MANY)["large"]
    assert code == POLICY_VIOLATION
    assert text is not None
    assert f"no room for {MANY} more partitions" in text
    assert "ulimit -n" in text
    assert [code for code, _ in create(wire, a=100, b=100, c=MANY - 200, d=1).values()] == [0, 0, POLICY_VIOLATION, 0]

    kind = CreatePartitionsRequest
    for count, wanted in ((MANY, POLICY_VIOLATION), (2, 0)):
        more = kind(topics=[kind.CreatePartitionsTopic(name="d", count=count, assignments=None)], timeout_ms=10_000)
        (result,) = wire.ask(more, 3).results
        assert result.error_code == wanted
    names = {topic.name: len(topic.partitions) for topic in wire.ask(MetadataRequest(topics=None), 12).topics}
    assert names == {"a": 100, "b": 100, "d": 2}
    for name in names:
        assert wire.ask(produce_request(name, b"v"), 9).responses[0].partition_responses[0].error_code == 0


def roll_all(broker: Broker) -> None:
    for log in broker.parts.logs.logs():
        log.roll()


def test_connections_do_not_take_the_last_files(kafka: RefBroker, wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    assert create(wire, t=100) == {"t": (0, None)}
    with contextlib.ExitStack() as stack:
        with pytest.raises((ConnectionError, EOFError)):
            connect_often(kafka, stack)
        assert "too few files are left" in caplog.text
        # There is room for what a broker opens for a moment.
        kafka.call(roll_all)
        kafka.call(lambda broker: broker.parts.logs.checkpoint())
        assert wire.ask(produce_request("t", b"v"), 9).responses[0].partition_responses[0].error_code == 0
    with Wire(kafka.bootstrap_servers) as later:
        assert later.ask(ApiVersionsRequest(), 0)
