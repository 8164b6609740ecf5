"""The sender against brokers that the test plays: what is sent when, and what comes of each answer."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import (
    BrokerConnectionError,
    ClosedError,
    ClusterAuthorizationError,
    DeliveryUnknownError,
    DisconnectedError,
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    OAuthTokenError,
    ProtocolError,
    RecordNotDeliveredError,
    RecordTooLargeError,
    SaslAuthenticationError,
    TopicAuthorizationError,
    UnsupportedVersionError,
)
from kclient.producer.batch import ProducerBatch
from kclient.producer.outcomes import Outcome, outcome
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.support.producer_model import TOPIC_ID, Model
from tests.support.typed import built, must


def values(model: Model, request: Any, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in model.batches(request)[partition].records()]


def test_a_delivered_record_has_its_offset() -> None:
    model = Model()
    futures = [model.send(b"a", key=b"k"), model.send(b"b")]
    model.answer(model.one(), offset=41)
    first, second = (future.result(0) for future in futures)
    assert (first.topic, first.partition, first.offset, first.timestamp) == ("t", 0, 41, 5)
    assert (first.serialized_key_size, first.serialized_value_size) == (1, 1)
    assert second.offset == 42
    assert futures[0].done()
    assert futures[0].exception(0) is None


def test_the_broker_s_time_wins_where_it_says_one() -> None:
    model = Model()
    future = model.send()
    model.answer(model.one(), log_append_time_ms=77)
    assert future.result(0).timestamp == 77


def test_a_batch_waits_for_company() -> None:
    model = Model(linger_ms=10)
    model.send(b"a")
    assert model.poll() == []
    assert model.deadline == pytest.approx(model.now + 0.01)
    model.now += 0.005
    model.send(b"b")
    assert model.poll() == []
    model.now += 0.005
    assert values(model, model.one()) == [b"a", b"b"]


def test_a_full_batch_does_not_wait() -> None:
    model = Model(linger_ms=1000, batch_size=300)
    for _ in range(3):
        model.send(b"x" * 100)
    assert len(values(model, model.one())) == 2
    assert model.poll() == []


def test_nothing_waits_for_company_while_somebody_waits_for_room() -> None:
    model = Model(linger_ms=1000)
    model.send(b"a")
    model.accumulator.blocked.add("somebody")
    assert values(model, model.one()) == [b"a"]


def test_one_request_carries_a_batch_of_each_partition_of_a_broker() -> None:
    model = Model(leaders=[1, 1, 2])
    for partition in range(3):
        model.send(b"%d" % partition, partition=partition)
    requests = {request.node: request for request in model.poll()}
    assert sorted(model.batches(requests[1])) == [0, 1]
    assert sorted(model.batches(requests[2])) == [2]


def test_a_request_is_not_larger_than_allowed() -> None:
    model = Model(leaders=[1, 1, 1], max_request_size=1000)
    for partition in range(3):
        model.send(b"x" * 400, partition=partition)
    requests = model.poll()
    assert sorted(len(model.batches(request)) for request in requests) == [1, 2]


def test_at_most_five_requests_are_on_their_way() -> None:
    model = Model(batch_size=300, linger_ms=1000)
    for _ in range(40):
        model.send(b"x" * 100)
    # The broker has to accept a partition's first batch before others follow it (see `test_idempotence`).
    model.answer(model.one())
    requests = model.poll()
    assert len(requests) == 5
    assert model.poll() == []
    model.answer(requests[0])
    assert len(model.poll()) == 1


def test_versions_without_topic_ids_carry_names_and_later_ones_ids() -> None:
    model = Model()
    model.send()
    request = model.one()
    assert built(request, ProduceRequest, 12).topic_data[0].name == "t"
    assert built(request, ProduceRequest, 13).topic_data[0].topic_id == TOPIC_ID
    assert request.maximum_version is None


def test_acks_0_is_delivered_once_written() -> None:
    model = Model(acks=0)
    future = model.send()
    request = model.one()
    assert not request.expects_response
    assert built(request, ProduceRequest, 9).acks == 0
    request.on_response(None, model.now)
    assert future.result(0).offset == -1


def test_no_request_goes_to_a_broker_that_is_not_ready() -> None:
    model = Model()
    model.send()
    model.nodes.down.add(1)
    assert model.poll() == []
    model.nodes.down.clear()
    assert len(model.poll()) == 1


def test_a_partition_without_a_leader_asks_for_metadata_and_waits() -> None:
    model = Model(leaders=[None])
    model.send()
    assert model.poll() == []
    assert model.metadata.updates == 1
    model.metadata.set_leaders([3], [1])
    assert model.one().node == 3


def test_a_retriable_error_is_retried_after_a_backoff() -> None:
    model = Model()
    future = model.send(b"a")
    model.answer(model.one(), code=NotLeaderOrFollowerError.code)
    assert model.metadata.updates == 1
    assert model.poll() == []
    assert model.now + 0.07 < model.deadline < model.now + 0.13
    model.now = model.deadline
    assert not future.done()
    model.answer(model.one(), offset=3)
    assert future.result(0).offset == 3


def test_a_new_leader_is_not_waited_for() -> None:
    model = Model()
    model.send()
    model.answer(model.one(), code=NotLeaderOrFollowerError.code)
    model.metadata.set_leaders([2], [1])
    assert model.one().node == 2


def test_a_hint_at_the_new_leader_is_passed_on() -> None:
    model = Model()
    model.send()
    hint = ProduceResponse.LeaderIdAndEpoch(leader_id=2, leader_epoch=4)
    model.answer(model.one(), code=NotLeaderOrFollowerError.code, current_leader=hint)
    assert model.metadata.hints == {("t", 0): (2, 4)}


def test_a_lost_connection_is_retried() -> None:
    model = Model()
    future = model.send(b"a")
    model.lose(model.one(), DisconnectedError())
    model.now += 1
    request = model.one()
    assert values(model, request) == [b"a"]
    model.answer(request)
    assert future.result(0).offset == 0


def test_waits_grow_and_end_with_the_delivery_timeout() -> None:
    model = Model(delivery_timeout_ms=40_000, request_timeout_ms=10_000)
    future = model.send()
    waits = []
    while not future.done():
        for request in model.poll():
            model.lose(request, DisconnectedError("gone"))
        started = model.now
        if model.poll() == [] and not future.done():
            model.now = model.deadline
            waits.append(model.now - started)
    assert waits[0] < 0.13
    assert 0.8 <= max(waits[:10]) <= 1.0
    error = future.exception(0)
    assert isinstance(error, DeliveryUnknownError)
    assert str(error) == (
        "1 record may or may not have been written: delivery_timeout_ms (40000) has passed; the last error was: gone "
        "[topic t, partition 0]"
    )
    assert model.now == pytest.approx(1040)


def test_retries_can_be_limited() -> None:
    model = Model(retries=1, acks=1)
    future = model.send()
    for _ in range(2):
        model.answer(model.one(), code=LeaderNotAvailableError.code)
        model.now += 2
    assert isinstance(future.exception(0), LeaderNotAvailableError)


def test_a_batch_that_no_broker_took_says_why_none_could_be_reached() -> None:
    model = Model(delivery_timeout_ms=31_000)
    model.nodes.down.add(model.metadata.cluster.partition("t", 0).leader)  # type: ignore[union-attr,arg-type]
    model.metadata.last_error = DisconnectedError("refused")
    future = model.send()
    assert model.poll() == []
    model.now += 31
    model.poll()
    error = future.exception(0)
    assert isinstance(error, RecordNotDeliveredError)
    assert str(error) == (
        "1 record was not delivered: delivery_timeout_ms (31000) has passed; the last error was: refused "
        "[topic t, partition 0]"
    )
    assert isinstance(error.__cause__, KafkaTimeoutError)
    assert error.__cause__.__cause__ is model.metadata.last_error


def test_error_of_an_expired_batch_names_why_its_leader_cannot_be_reached() -> None:
    model = Model(delivery_timeout_ms=31_000)
    model.nodes.down.add(1)
    model.nodes.errors[1] = BrokerConnectionError("leader", 9092, "refused")
    model.metadata.last_error = DisconnectedError("of another broker")
    future = model.send()
    assert model.poll() == []
    model.now += 31
    model.poll()
    error = future.exception(0)
    assert isinstance(error, RecordNotDeliveredError)
    assert "the last error was: could not connect to leader:9092: refused" in str(error)


def test_a_leader_that_refuses_the_client_fails_what_has_waited_for_an_attempt() -> None:
    model = Model(linger_ms=1000)
    model.nodes.down.add(1)
    model.nodes.errors[1] = SaslAuthenticationError("no such user")
    futures = [model.send(bytes(20_000)), model.send()]
    model.now += 1
    assert model.poll() == []
    assert not any(future.done() for future in futures)
    model.nodes.tried_at = model.now
    late = model.send()
    assert model.poll() == []
    for future in (*futures, late):
        with pytest.raises(SaslAuthenticationError, match="no such user"):
            future.result(0)
    model.now += 1
    again = model.send()
    model.now += 1
    model.poll()
    assert not again.done()
    model.nodes.down.clear()
    model.answer(model.one(), offset=3)
    assert again.result(0).offset == 3


@pytest.mark.parametrize(
    "error", [BrokerConnectionError("h", 1, "refused"), OAuthTokenError("the provider is down")], ids=["down", "token"]
)
def test_a_leader_that_cannot_be_reached_fails_nothing(error: KafkaError) -> None:
    model = Model()
    model.nodes.down.add(1)
    model.nodes.errors[1] = error
    future = model.send()
    model.nodes.tried_at = model.now
    assert model.poll() == []
    assert not future.done()


def test_a_batch_that_may_be_written_is_unknown_when_its_leader_refuses_the_client() -> None:
    model = Model()
    future = model.send()
    model.one().on_error(DisconnectedError("lost"), model.now)
    model.now += 1
    model.nodes.down.add(1)
    model.nodes.errors[1] = SaslAuthenticationError("no such user")
    model.nodes.tried_at = model.now
    model.poll()
    with pytest.raises(DeliveryUnknownError, match="no such user"):
        future.result(0)


def test_late_response_without_the_partition_of_an_expired_batch_is_ignored() -> None:
    model = Model()
    future = model.send()
    request = model.one()
    model.now += 1_000
    model.poll()
    assert isinstance(future.exception(0), DeliveryUnknownError)
    request.on_response(ProduceResponse(responses=[]), model.now)
    assert isinstance(future.exception(0), DeliveryUnknownError)


def test_a_batch_whose_answer_never_comes_expires() -> None:
    model = Model(delivery_timeout_ms=31_000)
    future = model.send()
    request = model.one()
    model.now += 31
    model.poll()
    assert isinstance(future.exception(0), DeliveryUnknownError)
    assert model.accumulator.used == 0
    model.answer(request)
    assert model.accumulator.used == 0


def test_records_of_a_refused_topic_fail_and_others_are_delivered() -> None:
    model = Model()
    refused = model.send()
    model.answer(model.one(), code=TopicAuthorizationError.code)
    with pytest.raises(TopicAuthorizationError, match="partition 0"):
        refused.result(0)
    delivered = model.send()
    model.answer(model.one())
    assert delivered.result(0).offset == 0


def test_a_batch_too_large_for_the_broker_is_split() -> None:
    model = Model()
    futures = [model.send(b"%03d" % number * 30) for number in range(10)]
    too_large = model.one()
    model.answer(too_large, code=RecordTooLargeError.code)
    offset = 0
    sizes = []
    while requests := model.poll():
        for request in requests:
            count = len(values(model, request))
            sizes.append(count)
            if count > 3:
                model.answer(request, code=RecordTooLargeError.code)
            else:
                model.answer(request, offset=offset)
                offset += count
    assert sorted(sizes) == [2, 2, 3, 3, 5, 5]
    assert [future.result(0).offset for future in futures] == list(range(10))
    assert model.accumulator.used == 0
    assert model.topic.partitions[0].batch_limit < 1_000_000


def test_a_single_record_too_large_for_the_broker_fails() -> None:
    model = Model()
    future = model.send()
    model.answer(model.one(), code=RecordTooLargeError.code)
    assert isinstance(future.exception(0), RecordTooLargeError)


def test_only_the_records_the_broker_names_fail() -> None:
    model = Model()
    futures = [model.send(b"%d" % number) for number in range(5)]
    named = [
        ProduceResponse.BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key"),
        ProduceResponse.BatchIndexAndErrorMessage(batch_index=3),
    ]
    model.answer(model.one(), code=InvalidRecordError.code, record_errors=named, error_message="bad records")
    rest = model.one()
    assert values(model, rest) == [b"0", b"2", b"4"]
    model.answer(rest, offset=10)
    assert [futures[index].result(0).offset for index in (0, 2, 4)] == [10, 11, 12]
    with pytest.raises(InvalidRecordError, match="no key"):
        futures[1].result(0)
    with pytest.raises(InvalidRecordError, match="bad records"):
        futures[3].result(0)
    assert model.accumulator.used == 0


def test_a_batch_of_refused_records_fails_whole() -> None:
    model = Model()
    future = model.send()
    named = [ProduceResponse.BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="no key")]
    model.answer(model.one(), code=InvalidRecordError.code, record_errors=named)
    with pytest.raises(InvalidRecordError, match="no key"):
        future.result(0)


def test_order_is_kept_without_idempotence_when_one_request_is_allowed() -> None:
    model = Model(batch_size=100, linger_ms=1000, acks=1, max_in_flight_requests_per_connection=1)
    for number in range(4):
        model.send(b"%d" % number * 60)
    seen = []
    for turn in range(10):
        requests = model.poll()
        for request in requests:
            assert len(requests) == 1
            if turn % 2:
                model.lose(request, DisconnectedError())
            else:
                seen += values(model, request)
                model.answer(request)
        model.now += 2
    assert [must(value)[:1] for value in seen] == [b"0", b"1", b"2", b"3"]


def test_what_cannot_be_delivered_at_all_is_fatal() -> None:
    model = Model()
    futures = [model.send(), model.send()]
    model.answer(model.one(), code=ClusterAuthorizationError.code)
    assert isinstance(model.fatal, ClusterAuthorizationError)
    assert all(isinstance(future.exception(0), ClusterAuthorizationError) for future in futures)
    late = model.send()
    assert model.poll() == []
    assert isinstance(late.exception(0), ClusterAuthorizationError)


def test_what_was_written_is_delivered_although_another_partition_is_fatal() -> None:
    model = Model(leaders=[1, 1])
    refused, written = model.send(partition=0), model.send(partition=1)
    model.answer(model.one(), codes={0: ClusterAuthorizationError.code}, offset=7)
    assert model.poll() == []
    assert isinstance(refused.exception(0), ClusterAuthorizationError)
    assert written.result(0).offset == 7


def test_a_closed_connection_fails_what_it_carried() -> None:
    model = Model()
    future = model.send()
    model.lose(model.one(), ClosedError())
    error = future.exception(0)
    assert isinstance(error, DeliveryUnknownError)
    assert isinstance(error.__cause__, ClosedError)
    assert error.fatal


def test_a_version_nobody_shares_fails_the_records() -> None:
    model = Model()
    future = model.send()
    model.lose(model.one(), UnsupportedVersionError())
    assert isinstance(future.exception(0), UnsupportedVersionError)


def test_an_answer_without_a_partition_fails_it() -> None:
    model = Model()
    future = model.send()
    request = model.one()
    request.on_response(ProduceResponse(), model.now)
    assert "did not contain" in str(future.exception(0))


def test_flush_closes_open_batches() -> None:
    model = Model(linger_ms=10_000)
    model.send(b"a")
    (batch,) = model.parts.unsettled.take_all()
    assert batch.count == 1
    assert values(model, model.one()) == [b"a"]


def test_the_producer_id_is_asked_for_first_and_again_after_a_failure() -> None:
    model = Model(with_id=False)
    model.send()
    (asked,) = model.poll()
    assert asked.request_type is InitProducerIdRequest
    asked.on_error(DisconnectedError(), model.now)
    assert model.poll() == []
    model.now = model.deadline
    (again,) = model.poll()
    again.on_response(InitProducerIdResponse(producer_id=4, producer_epoch=2), model.now)
    (batch,) = model.batches(model.one()).values()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4, 2, 0)


def test_no_permission_for_a_producer_id_is_fatal() -> None:
    model = Model(with_id=False)
    future = model.send()
    (asked,) = model.poll()
    asked.on_response(InitProducerIdResponse(error_code=ClusterAuthorizationError.code), model.now)
    assert isinstance(model.fatal, ClusterAuthorizationError)
    assert model.poll() == []
    assert isinstance(future.exception(0), ClusterAuthorizationError)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, Outcome.DELIVERED),
        (46, Outcome.DELIVERED),
        (6, Outcome.RETRY),
        (2, Outcome.RETRY),
        (19, Outcome.RETRY),
        (7, Outcome.RETRY),
        (10, Outcome.SPLIT),
        (45, Outcome.OUT_OF_ORDER),
        (59, Outcome.OUT_OF_ORDER),
        (87, Outcome.REJECTED),
        (29, Outcome.REJECTED),
        (47, Outcome.REJECTED),
        (31, Outcome.FATAL),
        (90, Outcome.FATAL),
        (9999, Outcome.REJECTED),
    ],
)
def test_what_is_done_about_each_error(code: int, expected: Outcome) -> None:
    assert outcome(code) is expected


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_and_split_nevertheless(codec: str) -> None:
    model = Model(compression_type=codec)
    futures = [model.send(b"%d" % number * 50) for number in range(8)]
    request = model.one()
    assert model.batches(request)[0].compression_type == codec
    model.answer(request, code=RecordTooLargeError.code)
    offset = 0
    for _ in range(5):
        for request in model.poll():
            model.answer(request, offset=offset)
            offset += 4
    assert [future.result(0).offset for future in futures] == list(range(8))


def test_a_batch_that_cannot_be_built_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model(compression_type="gzip")
    future = model.send()
    from kclient.records import codecs

    def broken(*_: Any) -> bytes:
        raise OSError("no codec")

    monkeypatch.setattr(codecs, "compress", broken)
    assert model.poll() == []
    error = future.exception(0)
    assert isinstance(error, RecordNotDeliveredError)
    assert "OSError: no codec" in str(error)
    assert isinstance(error.__cause__, OSError)
    assert model.accumulator.used == 0


def test_room_is_free_before_anybody_is_notified_of_a_settled_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    used: list[int] = []
    monkeypatch.setattr(model.outlet, "settled", lambda batch, callbacks: used.append(model.accumulator.used))
    model.send(b"delivered")
    model.answer(model.one())
    model.send(b"refused")
    model.answer(model.one(), code=TopicAuthorizationError.code)
    assert used == [0, 0]


def test_what_is_behind_a_batch_that_cannot_be_built_is_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    bad = model.send(b"bad")
    model.topic.partitions[0].seal()
    good = model.send(b"good")
    build = ProducerBatch.build

    def build_or_fail(batch: ProducerBatch) -> Any:
        if batch.result is bad._result:
            raise MemoryError("no room to compress")
        return build(batch)

    monkeypatch.setattr(ProducerBatch, "build", build_or_fail)
    assert model.poll() == []
    assert model.deadline <= model.now
    request = model.one()
    assert values(model, request) == [b"good"]
    error = bad.exception(0)
    assert isinstance(error, RecordNotDeliveredError)
    assert isinstance(error.__cause__, MemoryError)
    model.answer(request)
    assert good.result(0).offset == 0


def test_what_is_behind_a_batch_that_expired_before_its_retry_is_sent_at_once() -> None:
    model = Model(delivery_timeout_ms=40_000)
    first = model.send(b"first")
    model.lose(model.one(), DisconnectedError("gone"))
    (batch,) = model.parts.unsettled.take_all()
    batch.attempts.retry_at = batch.deadline
    model.now += 1.0
    second = model.send(b"second")
    assert model.poll() == []
    model.now = batch.deadline
    requests = model.poll()
    assert isinstance(first.exception(0), DeliveryUnknownError)
    if not requests:
        assert model.deadline <= model.now
        requests = model.poll()
    (sent,) = model.batches(requests[0]).values()
    assert (sent.producer_epoch, sent.base_sequence) == (1, 0)
    model.answer(requests[0], offset=3)
    assert second.result(0).offset == 3


def test_metadata_is_requested_when_the_leader_is_an_unknown_broker() -> None:
    model = Model()
    model.nodes.down.add(1)
    model.metadata.cluster.brokers.clear()
    model.send()
    assert model.poll() == []
    assert model.metadata.updates == 1


def test_numbers_continue_where_they_were_when_a_topic_was_forgotten_for_a_while() -> None:
    model = Model()
    model.send(b"first")
    model.answer(model.one())
    assert model.poll() == []
    assert model.accumulator.remove_topic("t")
    model.parts.load.forget(model.topic)
    model.topic = model.accumulator.add_topic("t", 1)
    model.send(b"second")
    # Numbered from 0 again it would be taken for the first one, and thrown away.
    (batch,) = model.batches(model.one()).values()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 0, 1)


def test_an_answer_without_a_partition_fails_its_batch() -> None:
    model = Model()
    future = model.send()
    request = model.one()
    request.on_response(ProduceResponse(responses=[]), model.now)
    with pytest.raises(DeliveryUnknownError, match="did not contain the partition") as raised:
        future.result(0)
    assert isinstance(raised.value.__cause__, ProtocolError)
