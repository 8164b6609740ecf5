"""Client quotas on a held clock: the response comes at once, and the connection is not read for the throttle time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kclient import Admin, NewTopic
from kclient.admin import QuotaEntity
from kclient.errors import ThrottlingQuotaExceededError
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.create_partitions import CreatePartitionsRequest
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.testing import RefBroker
from tests.support.wire import Wire, fetch_request, produce_request

EVERYBODY = QuotaEntity(user="")


@pytest.fixture
def broker() -> Iterator[RefBroker]:
    with RefBroker() as running:
        running.create_topic("orders")
        running.clock.hold()
        yield running


@pytest.fixture
def wire(broker: RefBroker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection


def limit(broker: RefBroker, **quotas: float) -> None:
    with Admin(**broker.client_options) as admin:
        admin.alter_client_quotas({EVERYBODY: quotas})


def is_silent(wire: Wire) -> bool:
    """Whether nothing arrives, while another connection is answered."""
    wire.socket.settimeout(0.05)
    try:
        return not wire.socket.recv(1)
    except TimeoutError:
        return True
    finally:
        wire.socket.settimeout(10)


def throttled_until(broker: RefBroker, wire: Wire, throttle_ms: int) -> None:
    """Check that a request is answered when the throttle time has passed, and not before."""
    wire.send(ApiVersionsRequest(), 0)
    broker.clock.step(throttle_ms / 1000 - 0.001)
    assert is_silent(wire)
    broker.clock.step(0.001)
    wire.read_frame()


def test_a_producer_over_its_quota_is_answered_and_then_not_read(broker: RefBroker, wire: Wire) -> None:
    limit(broker, producer_byte_rate=1000)
    first = wire.ask(produce_request("orders", b"x" * 5000), 9)
    assert first.throttle_time_ms == 0
    second = wire.ask(produce_request("orders", b"x" * 10_000), 9)
    assert second.responses[0].partition_responses[0].error_code == 0
    assert 5000 < second.throttle_time_ms < 6000
    throttled_until(broker, wire, second.throttle_time_ms)


def test_a_producer_without_acknowledgements_is_not_read_either(broker: RefBroker, wire: Wire) -> None:
    limit(broker, producer_byte_rate=1000)
    wire.send(produce_request("orders", b"x" * 20_000, acks=0), 9)
    wire.send(ApiVersionsRequest(), 0)
    assert is_silent(wire)
    broker.clock.step(60)
    wire.read_frame()


def test_a_consumer_over_its_quota_gets_nothing_until_it_has_waited(broker: RefBroker, wire: Wire) -> None:
    wire.ask(produce_request("orders", b"x" * 9000), 9)
    limit(broker, consumer_byte_rate=1000)
    assert wire.ask(fetch_request("orders"), 11).responses
    over = wire.ask(fetch_request("orders"), 11)
    assert (over.responses, over.error_code) == ([], 0)
    assert over.throttle_time_ms > 0
    throttled_until(broker, wire, over.throttle_time_ms)
    broker.clock.step(60)
    assert wire.ask(fetch_request("orders"), 11).responses


def test_a_throttled_fetch_makes_no_session(broker: RefBroker, wire: Wire) -> None:
    wire.ask(produce_request("orders", b"x" * 9000), 9)
    limit(broker, consumer_byte_rate=1000)
    request = fetch_request("orders")
    request.session_epoch = 0
    session = wire.ask(request, 11)
    assert session.session_id
    request.session_id, request.session_epoch = session.session_id, 1
    over = wire.ask(request, 11)
    assert (over.session_id, over.error_code, over.responses) == (session.session_id, 0, [])
    assert over.throttle_time_ms > 0
    broker.clock.step(over.throttle_time_ms / 1000)
    request.session_id = request.session_epoch = 0
    with Wire(broker.bootstrap_servers) as other:
        assert other.ask(request, 11).session_id == 0


def test_the_requests_of_other_brokers_are_exempt(broker: RefBroker, wire: Wire) -> None:
    wire.ask(produce_request("orders", b"x" * 9000), 9)
    limit(broker, consumer_byte_rate=1, request_percentage=1e-9)
    follower = fetch_request("orders")
    follower.replica_id = 7
    answer = wire.ask(follower, 11)
    assert (answer.throttle_time_ms, len(answer.responses)) == (0, 1)


def test_a_fetch_reads_no_more_than_the_quota_of_a_window(broker: RefBroker, wire: Wire) -> None:
    for _ in range(20):
        wire.ask(produce_request("orders", b"x" * 1000), 9)
    limit(broker, consumer_byte_rate=500)
    answer = wire.ask(fetch_request("orders"), 11)
    assert 0 < len(answer.responses[0].partitions[0].records) <= 5000


def test_other_connections_of_a_throttled_client_are_read(broker: RefBroker, wire: Wire) -> None:
    limit(broker, producer_byte_rate=1)
    assert wire.ask(produce_request("orders", b"x" * 1000), 9).throttle_time_ms > 0
    with Wire(broker.bootstrap_servers) as other:
        assert other.ask(MetadataRequest(topics=None), 9).topics


def test_the_time_of_requests_is_limited_for_at_most_a_second(broker: RefBroker, wire: Wire) -> None:
    limit(broker, request_percentage=1e-9)
    answer = wire.ask(MetadataRequest(topics=None), 9)
    assert answer.throttle_time_ms == 1000
    throttled_until(broker, wire, 1000)


def test_a_login_is_not_throttled() -> None:
    with RefBroker(sasl={"alice": "wonder"}) as broker:
        limit(broker, request_percentage=1e-9)
        broker.clock.hold()
        with Wire(broker.bootstrap_servers) as wire:
            wire.ask(ApiVersionsRequest(), 0)
            wire.log_in("alice", "wonder")
            assert wire.ask(MetadataRequest(topics=None), 9).throttle_time_ms == 1000


def create(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=1000)


def test_mutations_beyond_the_quota_are_refused_from_some_versions_on(broker: RefBroker, wire: Wire) -> None:
    limit(broker, controller_mutation_rate=1)
    assert wire.ask(create("first", 15), 6).throttle_time_ms == 0  # 11 tokens
    refused: list[tuple[Any, int]] = [
        (create("second", 1), 6),
        (
            CreatePartitionsRequest(
                topics=[CreatePartitionsRequest.CreatePartitionsTopic(name="first", count=16, assignments=None)],
                timeout_ms=1000,
            ),
            3,
        ),
        (DeleteTopicsRequest(topic_names=["first"], timeout_ms=1000), 5),
    ]
    for request, version in refused:
        with Wire(broker.bootstrap_servers) as fresh:
            answer = fresh.ask(request, version)
        (result,) = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
        assert result.error_code == ThrottlingQuotaExceededError.code
        assert answer.throttle_time_ms == 4000
    with Wire(broker.bootstrap_servers) as older:
        made = older.ask(create("third", 1), 5)
        assert made.topics[0].error_code == 0
        assert made.throttle_time_ms == 5000


def test_an_admin_retries_what_the_quota_refuses(broker: RefBroker) -> None:
    limit(broker, controller_mutation_rate=5)
    broker.clock.run()
    with Admin(**broker.client_options) as admin:
        admin.create_topics(NewTopic("first", num_partitions=57))  # 2 more than a window has
        admin.create_topics(NewTopic("second", num_partitions=1))


def test_metrics_show_the_use_of_a_quota_and_its_throttle_times(broker: RefBroker, wire: Wire) -> None:
    def shown(name: str) -> Any:
        return broker.metrics()[f"kafka_server_{name}"]

    assert shown("produce_byte_rate") == {}
    limit(broker, producer_byte_rate=1000, consumer_byte_rate=1000, controller_mutation_rate=5)
    small = wire.ask(produce_request("orders", b"x" * 10), 9)
    assert small.throttle_time_ms == 0
    assert shown("produce_throttle_time") == {"ANONYMOUS": {"": 0.0}}
    over = wire.ask(produce_request("orders", b"x" * 20_000), 9)
    assert over.throttle_time_ms > 0
    assert shown("produce_throttle_time") == {"ANONYMOUS": {"": over.throttle_time_ms}}
    assert shown("produce_byte_rate")["ANONYMOUS"][""] == pytest.approx(2000, rel=0.1)
    assert shown("fetch_throttle_time") == {}
    broker.clock.step(120)
    assert shown("produce_throttle_time") == {"ANONYMOUS": {"": 0.0}}
    created = wire.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("a", 30, 1)]), 5)
    assert created.throttle_time_ms == 0
    assert shown("controllermutation_tokens")["ANONYMOUS"][""] == 5 * 11 - 30
