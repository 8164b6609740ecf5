"""Faults as clients meet them: on the wire, and in kclient."""

from __future__ import annotations

import random
import ssl
from collections.abc import Iterator

import pytest

from kclient import Consumer, Producer, errors
from kclient.protocol.frames import decode_response_header, peek_correlation_id
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.fetch import FetchResponse
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.testing import RefBroker
from tests.support import clock
from tests.support.patience import ANSWER
from tests.support.reading import read, read_all
from tests.support.waiting import wait_until
from tests.support.wire import Wire, fetch_request, frame, produce_request, values


@pytest.fixture
def orders(kafka: RefBroker) -> RefBroker:
    kafka.create_topic("orders", 2)
    return kafka


@pytest.fixture
def producer(orders: RefBroker) -> Iterator[Producer]:
    with Producer(bootstrap_servers=orders.bootstrap_servers, request_timeout_ms=1000, linger_ms=0) as producer:
        # What follows is about the requests behind the first ones.
        producer.send("orders", b"first", partition=0).result(timeout=ANSWER)
        yield producer


def contents(kafka: RefBroker) -> list[bytes | None]:
    with Wire(kafka.bootstrap_servers) as wire:
        return values(wire.ask(fetch_request("orders"), 11))


def is_silent(wire: Wire) -> bool:
    """Whether the connection is open and nothing comes; looks at what is there now."""
    wire.socket.setblocking(False)
    try:
        wire.socket.recv(1)
        return False
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    finally:
        wire.socket.settimeout(10)


# On the wire


def test_a_delayed_answer_keeps_its_place_and_others_connections_do_not_wait(orders: RefBroker) -> None:
    slow = orders.faults.delay("Metadata", when="after", client_id="wire", version=12)
    with Wire(orders.bootstrap_servers) as wire, Wire(orders.bootstrap_servers) as other:
        wire.write(
            frame(MetadataRequest(topics=None), 12, 1)
            + frame(ApiVersionsRequest(), 0, 2)
            + frame(produce_request("orders", b"v"), 9, 3)
        )
        slow.wait()
        assert other.ask(produce_request("orders", b"other"), 9).responses[0].partition_responses[0].base_offset == 0
        assert is_silent(wire)
        slow.remove()
        assert [peek_correlation_id(wire.read_frame()) for _ in range(3)] == [1, 2, 3]


def test_a_delay_lasts_as_long_as_it_is_reported(orders: RefBroker) -> None:
    orders.faults.delay("ApiVersions", 0.2)
    with Wire(orders.bootstrap_servers) as wire:
        began = clock.monotonic()
        wire.ask(ApiVersionsRequest(), 0)
        assert clock.monotonic() - began >= 0.2


@pytest.mark.parametrize(("when", "stored"), [("before", []), ("after", [b"v"])])
def test_a_dropped_request_leaves_its_connection_open_and_silent(
    orders: RefBroker, when: str, stored: list[bytes]
) -> None:
    fault = orders.faults.drop("Produce", when=when)  # type: ignore[arg-type]
    with Wire(orders.bootstrap_servers) as wire:
        wire.write(frame(produce_request("orders", b"v"), 9, 1) + frame(produce_request("orders", b"behind"), 9, 2))
        fault.wait()
        fault.remove()
        assert contents(orders) == stored
        assert is_silent(wire)
        assert orders.call(lambda broker: len(broker.server.connections)) >= 1


@pytest.mark.parametrize(("when", "stored"), [("before", []), ("after", [b"v"])])
def test_a_cut_closes_the_connection_behind_the_answers_before_it(
    orders: RefBroker, when: str, stored: list[bytes]
) -> None:
    orders.faults.cut("Produce", when=when)  # type: ignore[arg-type]
    with Wire(orders.bootstrap_servers) as wire:
        wire.write(
            frame(ApiVersionsRequest(), 0, 1)
            + frame(produce_request("orders", b"v"), 9, 2)
            + frame(produce_request("orders", b"behind"), 9, 3)
        )
        assert peek_correlation_id(wire.read_frame()) == 1
        assert wire.is_closed()
        assert contents(orders) == stored


def test_an_answer_that_is_truncated_ends_in_the_middle(orders: RefBroker) -> None:
    with Wire(orders.bootstrap_servers) as wire:
        wire.send(ApiVersionsRequest(), 0)
        whole = len(wire.read_frame()) + 4
        orders.faults.truncate("ApiVersions")
        wire.send(ApiVersionsRequest(), 0)
        received = b""
        while part := wire.socket.recv(65536):
            received += part
        assert len(received) == whole // 2


def test_producers_that_want_no_answer_are_reported_by_the_end_of_their_connection(orders: RefBroker) -> None:
    with Wire(orders.bootstrap_servers) as wire:
        dropped = orders.faults.drop("Produce")
        late = orders.faults.delay("Produce", 0.01)
        wire.write(frame(produce_request("orders", b"lost", acks=0), 9, 1))
        wire.write(frame(produce_request("orders", b"late", acks=0), 9, 2) + frame(ApiVersionsRequest(), 0, 3))
        assert peek_correlation_id(wire.read_frame()) == 3
        assert (dropped.fired, late.fired, contents(orders)) == (1, 1, [b"late"])
        orders.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders")
        wire.send(produce_request("orders", b"refused", acks=0), 9)
        assert wire.is_closed()
    with Wire(orders.bootstrap_servers) as wire:
        orders.faults.fail("Produce", "REQUEST_TIMED_OUT", when="after")
        wire.send(produce_request("orders", b"kept", acks=0), 9)
        assert wire.is_closed()
    assert contents(orders) == [b"late", b"kept"]


def test_records_keep_their_order_where_a_new_partition_refuses_the_first_requests(
    orders: RefBroker, rng: random.Random
) -> None:
    orders.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", count=rng.randrange(1, 4))
    with Producer(bootstrap_servers=orders.bootstrap_servers, linger_ms=0, batch_size=100) as producer:
        sent = [producer.send("orders", b"%d" % number, partition=0) for number in range(50)]
        assert [future.result(ANSWER).offset for future in sent] == list(range(50))
    assert contents(orders) == [b"%d" % number for number in range(50)]


def test_a_long_poll_that_is_struck_still_waits_and_is_woken(orders: RefBroker) -> None:
    fault = orders.faults.delay("Fetch", 0.0, when="after")
    with Wire(orders.bootstrap_servers) as waiting, Wire(orders.bootstrap_servers) as other:
        waiting.send(fetch_request("orders", wait_ms=20_000), 11)
        wait_until(lambda: orders.call(lambda broker: len(broker.parts.delayed_fetches)))
        assert fault.fired == 0
        other.ask(produce_request("orders", b"v"), 9)
        _, body = decode_response_header(1, 11, waiting.read_frame())
        assert (values(FetchResponse.decode(body, 11)), fault.fired) == ([b"v"], 1)


def test_a_delayed_client_that_disconnects_is_forgotten(orders: RefBroker) -> None:
    for fault in (orders.faults.delay("ApiVersions"), orders.faults.drop("Metadata")):
        with Wire(orders.bootstrap_servers) as wire:
            wire.send(ApiVersionsRequest() if fault.rule.api == "ApiVersions" else MetadataRequest(topics=[]), 0)
            fault.wait()
        wait_until(lambda: not orders.call(lambda broker: len(broker.server.connections)))


def test_a_disconnect_after_a_dropped_request_is_noticed_despite_later_requests(
    orders: RefBroker,
) -> None:
    fault = orders.faults.drop("Metadata")
    with Wire(orders.bootstrap_servers) as wire:
        wire.write(frame(MetadataRequest(topics=[]), 12, 1) + frame(produce_request("orders", bytes(100_000)), 9, 2))
        fault.wait()
        wire.write(frame(produce_request("orders", bytes(1_000_000)), 9, 3))
    wait_until(lambda: not orders.call(lambda broker: len(broker.server.connections)))
    assert contents(orders) == []


@pytest.mark.parametrize("end", ["close", "kill", "restart"])
def test_a_broker_stops_at_once_despite_delayed_requests(end: str) -> None:
    kafka = RefBroker().start()
    try:
        faults = [kafka.faults.delay("ApiVersions", count=None), kafka.faults.drop("Metadata")]
        with Wire(kafka.bootstrap_servers) as delayed, Wire(kafka.bootstrap_servers) as dropped:
            delayed.send(ApiVersionsRequest(), 0)
            dropped.send(MetadataRequest(topics=[]), 0)
            for fault in faults:
                fault.wait()
            getattr(kafka, end)()
            assert delayed.is_closed()
            assert dropped.is_closed()
    finally:
        kafka.close()


def test_faults_stay_while_the_broker_is_restarted(orders: RefBroker) -> None:
    with orders.faults.fail("Produce", "KAFKA_STORAGE_ERROR", count=None) as fault:
        orders.kill()
        orders.start()
        with Wire(orders.bootstrap_servers) as wire:
            answer = wire.ask(produce_request("orders", b"v"), 9)
            assert (answer.responses[0].partition_responses[0].error_code, fault.fired) == (56, 1)
    with Wire(orders.bootstrap_servers) as wire:
        assert wire.ask(produce_request("orders", b"v"), 9).responses[0].partition_responses[0].error_code == 0


# In kclient


@pytest.mark.parametrize(
    "ask",
    [
        lambda faults: faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", count=3),
        lambda faults: faults.fail("Produce", errors.NotEnoughReplicasError, count=3),
        lambda faults: faults.fail("Produce", "REQUEST_TIMED_OUT", when="after", count=3),
        lambda faults: faults.cut("Produce", count=3),
        lambda faults: faults.cut("Produce", when="after", count=3),
        lambda faults: faults.truncate("Produce", count=3),
        lambda faults: faults.corrupt("Produce", topic="orders", count=3),
        lambda faults: faults.drop("Produce", count=2),
        lambda faults: faults.drop("Produce", when="after", count=2),
    ],
    ids=["not leader", "not enough", "after", "cut", "cut after", "truncated", "corrupt", "drop", "drop after"],
)
def test_an_idempotent_producer_stores_every_record_once_whatever_happens(
    orders: RefBroker, producer: Producer, ask: object
) -> None:
    assert callable(ask)
    with ask(orders.faults) as fault:
        futures = [producer.send("orders", b"%d" % number, partition=0) for number in range(10)]
        for future in futures:
            future.result(timeout=ANSWER)
        assert fault.fired == fault.rule.count
    stored = [record.value for record in read_all(orders.bootstrap_servers, "orders")]
    assert stored == [b"first", *(b"%d" % number for number in range(10))]


def test_an_error_no_retry_can_help_reaches_the_application(orders: RefBroker, producer: Producer) -> None:
    with (
        orders.faults.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", topic="orders", partition=1),
        pytest.raises(errors.TopicAuthorizationError),
    ):
        producer.send("orders", b"v", partition=1).result(timeout=ANSWER)
    assert producer.send("orders", b"v", partition=0).result(timeout=ANSWER).offset == 1


def test_a_consumer_gets_every_record_whatever_happens(orders: RefBroker, producer: Producer) -> None:
    for number in range(10):
        producer.send("orders", b"%d" % number, partition=0)
    producer.flush()
    expected = [record.value for record in read_all(orders.bootstrap_servers, "orders")]
    faults = [
        orders.faults.fail("Fetch", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0),
        orders.faults.fail("Fetch", "FETCH_SESSION_ID_NOT_FOUND"),
        orders.faults.cut("Fetch", when="after"),
        orders.faults.truncate("Fetch"),
        orders.faults.fail("ListOffsets", "LEADER_NOT_AVAILABLE", topic="orders"),
        orders.faults.fail("Metadata", "LEADER_NOT_AVAILABLE", topic="orders"),
    ]
    with Consumer("orders", bootstrap_servers=orders.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        found = [record.value for record in read(consumer, 11)]
    assert found == expected
    assert [fault.fired for fault in faults] == [1] * len(faults)


def test_a_consumer_notices_a_flipped_bit(orders: RefBroker, producer: Producer) -> None:
    with orders.faults.corrupt("Fetch", topic="orders", count=None) as fault:
        with (
            Consumer("orders", bootstrap_servers=orders.bootstrap_servers, auto_offset_reset="earliest") as consumer,
            pytest.raises(errors.CorruptRecordError),
        ):
            read(consumer, 1)
        assert fault.fired > 0


def test_an_election_makes_clients_ask_again_and_lose_nothing(orders: RefBroker, producer: Producer) -> None:
    with Consumer("orders", bootstrap_servers=orders.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        found = read(consumer, 1)
        assert [orders.elect("orders", 0), orders.elect("orders", 0)] == [1, 2]
        assert producer.send("orders", b"second", partition=0).result(timeout=ANSWER).offset == 1
        found += read(consumer, 1)
    assert [(record.value, record.leader_epoch) for record in found] == [(b"first", 0), (b"second", 2)]
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        orders.elect("orders", 2)
