"""Other clients take injected faults for a broker's own: they retry what they may, and give up on what they may not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from refbroker.testing import RefBroker
from tests.interop.clients import Message, client
from tests.support.patience import ANSWER

confluent_kafka = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.refbroker_only


@pytest.fixture
def kafka() -> Iterator[RefBroker]:
    with RefBroker() as kafka:
        kafka.create_topic("orders")
        yield kafka


@pytest.fixture
def producer(kafka: RefBroker) -> Any:
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "enable.idempotence": True,
            "socket.timeout.ms": 1000,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 10,
            "log_level": 0,
        }
    )


def send(producer: Any, value: bytes) -> str | None:
    """Send a record; the name of its error, None when it was stored."""
    errors: list[Any] = []
    producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(ANSWER)
    (error,) = errors
    return None if error is None else str(error.name())


def stored(kafka: RefBroker) -> list[bytes | None]:
    count = kafka.log("orders").log_end_offset
    return [message.value for message in client("kclient").consume(kafka.bootstrap_servers, "orders", count)]


@pytest.mark.parametrize(
    ("action", "arguments", "when"),
    [
        ("fail", ("NOT_LEADER_OR_FOLLOWER",), "before"),
        ("fail", ("NOT_ENOUGH_REPLICAS",), "before"),
        ("fail", ("REQUEST_TIMED_OUT",), "after"),
        ("cut", (), "before"),
        ("cut", (), "after"),
        ("drop", (), "before"),
        ("drop", (), "after"),
    ],
)
def test_confluent_retries_what_may_pass_and_stores_every_record_once(
    kafka: RefBroker, producer: Any, action: str, arguments: tuple[str, ...], when: str
) -> None:
    assert send(producer, b"first") is None
    with getattr(kafka.faults, action)("Produce", *arguments, when=when, topic="orders", count=2) as fault:
        assert send(producer, b"second") is None
        assert fault.fired == 2
    assert stored(kafka) == [b"first", b"second"]


def test_confluent_reports_what_no_retry_can_help(kafka: RefBroker, producer: Any) -> None:
    kafka.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="orders")
    assert send(producer, b"refused") == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize(
    "faults",
    [
        [("fail", ("Fetch", "NOT_LEADER_OR_FOLLOWER"), {"topic": "orders"})],
        [("fail", ("Fetch", "UNKNOWN_SERVER_ERROR"), {})],
        [("cut", ("Fetch",), {"when": "after"}), ("truncate", ("Fetch",), {})],
        [("corrupt", ("Fetch",), {"topic": "orders"})],
        [("fail", ("ListOffsets", "LEADER_NOT_AVAILABLE"), {"topic": "orders"})],
        [("fail", ("Metadata", "LEADER_NOT_AVAILABLE"), {"topic": "orders", "count": 2})],
        [("fail", ("ApiVersions", "UNSUPPORTED_VERSION"), {})],
    ],
    ids=lambda faults: faults[0][0] + " " + faults[0][1][0] + " " + "".join(faults[0][1][1:]),
)
def test_confluent_reads_on_after(kafka: RefBroker, faults: list[tuple[str, tuple[str, ...], dict[str, Any]]]) -> None:
    sent = [Message(None, b"%d" % number, (), 1_700_000_000_000) for number in range(20)]
    client("kclient").produce(kafka.bootstrap_servers, "orders", sent, "none")
    handles = [getattr(kafka.faults, action)(*arguments, **matching) for action, arguments, matching in faults]
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0 if "ListOffsets" not in faults[0][1] else -2)])
        values: list[bytes] = []
        while len(values) < len(sent):
            message = consumer.poll(ANSWER)
            assert message is not None
            if message.error() is None:
                values.append(message.value())
    finally:
        consumer.close()
    assert values == [message.value for message in sent]
    assert [handle.fired for handle in handles] == [handle.rule.count for handle in handles]


def test_confluent_notices_an_election_and_loses_nothing(kafka: RefBroker, producer: Any) -> None:
    assert send(producer, b"first") is None
    for epoch in (1, 2, 3):
        assert kafka.elect("orders") == epoch
        assert send(producer, b"%d" % epoch) is None
    assert stored(kafka) == [b"first", b"1", b"2", b"3"]


def test_aiokafka_retries_an_injected_error(kafka: RefBroker) -> None:
    sent = [Message(None, b"v", (), 1_700_000_000_000)]
    with kafka.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", count=2) as fault:
        client("aiokafka").produce(kafka.bootstrap_servers, "orders", sent, "none")
        assert fault.fired == 2
    assert stored(kafka) == [b"v"]
