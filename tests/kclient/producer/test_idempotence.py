"""Sequence numbers: in order, each once, through retries, gaps and new epochs (KIP-98, KIP-360)."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import (
    DeliveryUnknownError,
    DisconnectedError,
    DuplicateSequenceError,
    IllegalStateError,
    InvalidRecordError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceError,
    RecordNotDeliveredError,
    RecordTooLargeError,
    UnknownProducerIdError,
    UnknownTopicOrPartitionError,
)
from kclient.net.manager import Request
from kclient.producer.idempotence import (
    LAST_EPOCH,
    LAST_SEQUENCE,
    Identity,
    IdentityEvent,
    PartitionSequence,
    add_to_sequence,
)
from kclient.protocol.messages.init_producer_id import InitProducerIdResponse
from tests.support.producer_model import Model

Stamp = tuple[int, int, int]


def stamp(model: Model, request: Request) -> Stamp:
    (batch,) = model.batches(request).values()
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


class OneRecordBatches(Model):
    """A model in which `count` batches of one record wait to be sent."""

    def __init__(self, count: int, **options: Any) -> None:
        super().__init__(batch_size=150, linger_ms=0, **options)
        self.futures = [self.send(b"x" * 100) for _ in range(count)]


def full_batches(count: int, **options: Any) -> tuple[OneRecordBatches, list[Request]]:
    """Return a model whose broker has accepted sequence 0, and requests with the next `count` batches of one record."""
    model = OneRecordBatches(count + 1, **options)
    model.answer(model.one())
    assert model.futures.pop(0).done()
    return model, model.poll()


def test_sequences_wrap_after_the_last_one() -> None:
    assert add_to_sequence(LAST_SEQUENCE, 1) == 0
    assert add_to_sequence(LAST_SEQUENCE - 2, 5) == 2
    assert add_to_sequence(0, LAST_SEQUENCE) == LAST_SEQUENCE


def test_batches_are_numbered_in_order() -> None:
    model, requests = full_batches(3)
    assert [stamp(model, request) for request in requests] == [(9, 0, 1), (9, 0, 2), (9, 0, 3)]


@pytest.mark.parametrize("code", [NotLeaderOrFollowerError.code, UnknownTopicOrPartitionError.code])
def test_nothing_follows_the_first_batch_until_the_broker_has_accepted_it(code: int) -> None:
    model = OneRecordBatches(3)
    refused = model.one()
    assert model.poll() == []
    model.answer(refused, code=code)
    model.now += 2
    first = model.one()
    assert stamp(model, first) == (9, 0, 0)
    assert model.poll() == []
    model.answer(first)
    assert [stamp(model, request) for request in model.poll()] == [(9, 0, 1), (9, 0, 2)]


def test_the_first_batch_of_one_partition_holds_no_other_partition_back() -> None:
    model = Model(leaders=[1, 1], batch_size=150)
    for partition in (0, 1, 1, 1):
        model.send(b"x" * 100, partition=partition)
    both = model.one()
    model.answer(both, codes={0: NotLeaderOrFollowerError.code})
    assert [stamp(model, request) for request in model.poll()] == [(9, 0, 1), (9, 0, 2)]


def test_a_first_batch_that_was_written_before_counts_as_accepted() -> None:
    model = OneRecordBatches(3)
    model.lose(model.one(), DisconnectedError())
    model.now += 2
    model.answer(model.one(), code=DuplicateSequenceError.code)
    assert [stamp(model, request) for request in model.poll()] == [(9, 0, 1), (9, 0, 2)]


def test_nothing_follows_the_first_batch_after_one_that_was_refused_permanently() -> None:
    model = OneRecordBatches(3)
    model.answer(model.one(), code=InvalidRecordError.code)
    assert stamp(model, model.one()) == (9, 0, 0)
    assert model.poll() == []


def test_nothing_follows_the_first_batch_of_a_new_epoch() -> None:
    model, requests = full_batches(1)
    model.futures += [model.send(b"x" * 100) for _ in range(2)]
    model.answer(requests[0], code=OutOfOrderSequenceError.code)
    model.now += 2
    first = model.one()
    assert stamp(model, first) == (9, 1, 0)
    assert model.poll() == []
    model.answer(first)
    assert [stamp(model, request) for request in model.poll()] == [(9, 1, 1), (9, 1, 2)]


def test_nothing_follows_the_first_batch_of_a_new_producer_id() -> None:
    model, requests = full_batches(1)
    model.answer(requests[0])
    model.parts.identity.producer_id = 10
    model.futures = [model.send(b"x" * 100) for _ in range(3)]
    first = model.one()
    assert stamp(model, first) == (10, 0, 0)
    assert model.poll() == []
    model.answer(first)
    assert [stamp(model, request) for request in model.poll()] == [(10, 0, 1), (10, 0, 2)]


def test_a_batch_across_the_wrap_is_acknowledged_and_followed() -> None:
    model, requests = full_batches(1)
    model.answer(requests[0])
    entry = model.topic.partitions[0].entry
    entry.next_sequence = LAST_SEQUENCE
    entry.last_acknowledged = LAST_SEQUENCE - 1
    model.send(b"a")
    model.send(b"b")
    first = model.one()
    assert stamp(model, first) == (9, 0, LAST_SEQUENCE)
    model.answer(first)
    assert entry.last_acknowledged == 0
    assert entry.is_complete
    model.send(b"c")
    assert stamp(model, model.one()) == (9, 0, 1)


def test_five_in_flight_are_retried_in_order_under_their_numbers() -> None:
    model, requests = full_batches(5)
    assert len(requests) == 5
    for request in requests:
        model.lose(request, DisconnectedError())
    model.now += 2
    seen = []
    for offset in range(1, 6):
        request = model.one()
        seen.append(stamp(model, request))
        model.answer(request, offset=offset)
    assert seen == [(9, 0, number) for number in range(1, 6)]
    assert [future.result(0).offset for future in model.futures] == list(range(1, 6))


def test_new_batches_wait_behind_retries() -> None:
    model, requests = full_batches(1)
    model.lose(requests[0], DisconnectedError())
    late = model.send(b"late")
    model.now += 2
    retried, new = model.poll()
    assert stamp(model, retried) == (9, 0, 1)
    assert stamp(model, new) == (9, 0, 2)
    assert not late.done()


def test_a_failure_in_the_middle_keeps_the_order() -> None:
    model, requests = full_batches(3)
    model.answer(requests[0], offset=1)
    model.answer(requests[1], code=6)
    model.answer(requests[2], code=OutOfOrderSequenceError.code)
    model.now += 2
    second = model.one()
    assert stamp(model, second) == (9, 0, 2)
    model.answer(second, offset=2)
    third = model.one()
    assert stamp(model, third) == (9, 0, 3)
    model.answer(third, offset=3)
    assert [future.result(0).offset for future in model.futures] == [1, 2, 3]


def test_a_duplicate_counts_as_delivered_without_an_offset() -> None:
    model, requests = full_batches(1)
    model.answer(requests[0], code=46)
    assert model.futures[0].result(0).offset == -1


@pytest.mark.parametrize("code", [OutOfOrderSequenceError.code, UnknownProducerIdError.code])
def test_a_real_gap_is_left_by_a_new_epoch(code: int) -> None:
    model, requests = full_batches(3)
    model.answer(requests[0], code=code)
    assert model.poll() == []
    model.answer(requests[1], code=code)
    model.now += 2
    # The third is still under way: numbering it again could write it twice.
    assert model.poll() == []
    model.answer(requests[2], code=code)
    seen = []
    for offset in range(3):
        model.now += 2
        request = model.one()
        seen.append(stamp(model, request))
        model.answer(request, offset=offset)
    assert seen == [(9, 1, 0), (9, 1, 1), (9, 1, 2)]
    assert all(future.done() for future in model.futures)


def test_other_partitions_take_the_new_epoch_when_theirs_are_settled() -> None:
    model = Model(leaders=[1, 1])
    model.send(partition=0)
    model.send(partition=1)
    both = model.one()
    model.nodes.flying[1] += 1
    model.answer(both, code=0)
    model.send(partition=1)
    busy = model.one()
    model.send(partition=0)
    model.answer(model.one(), code=OutOfOrderSequenceError.code)
    model.now += 2
    restarted = model.one()
    assert stamp(model, restarted) == (9, 1, 0)
    model.send(partition=1)
    assert model.poll() == []
    model.answer(busy)
    assert stamp(model, model.one()) == (9, 1, 0)


def test_a_refused_batch_leaves_no_gap() -> None:
    model, requests = full_batches(2)
    model.answer(requests[0], code=InvalidRecordError.code)
    model.answer(requests[1], code=OutOfOrderSequenceError.code)
    model.now += 2
    request = model.one()
    assert stamp(model, request) == (9, 1, 0)
    model.answer(request)
    assert isinstance(model.futures[0].exception(0), InvalidRecordError)
    assert model.futures[1].result(0).offset == 0


def test_a_batch_that_expired_unsent_leaves_no_trace() -> None:
    model = Model()
    model.nodes.down.add(1)
    expired = model.send()
    model.now += 121
    assert model.poll() == []
    assert isinstance(expired.exception(0), RecordNotDeliveredError)
    model.nodes.down.clear()
    model.send()
    assert stamp(model, model.one()) == (9, 0, 0)


def test_new_batches_wait_until_an_expired_one_is_resolved() -> None:
    model, requests = full_batches(1, delivery_timeout_ms=31_000)
    model.now += 31
    model.poll()
    assert isinstance(model.futures[0].exception(0), DeliveryUnknownError)
    model.send(b"next")
    assert model.poll() == []
    model.answer(requests[0])
    assert stamp(model, model.one()) == (9, 0, 2)


def test_an_expired_batch_with_an_unknown_outcome_bumps_the_epoch() -> None:
    model, requests = full_batches(1, delivery_timeout_ms=31_000)
    model.now += 31
    model.poll()
    model.send(b"next")
    model.lose(requests[0], DisconnectedError())
    assert stamp(model, model.one()) == (9, 1, 0)


def test_a_batch_after_an_expired_one_is_renumbered_if_there_is_a_gap() -> None:
    model, requests = full_batches(1, delivery_timeout_ms=31_000)
    model.now += 5
    model.futures.append(model.send(b"second"))
    (second,) = model.poll()
    model.now += 26
    model.poll()
    assert model.futures[0].done()
    assert not model.futures[1].done()
    model.lose(requests[0], DisconnectedError())
    model.answer(second, code=OutOfOrderSequenceError.code)
    model.now += 2
    again = model.one()
    assert stamp(model, again) == (9, 1, 0)
    model.answer(again)
    assert model.futures[1].result(0).offset == 0


def test_after_the_last_epoch_there_is_a_new_id() -> None:
    model, requests = full_batches(1)
    model.answer(requests[0])
    model.parts.identity.epoch = LAST_EPOCH
    model.topic.partitions[0].entry.epoch = LAST_EPOCH
    model.send()
    model.answer(model.one(), code=OutOfOrderSequenceError.code)
    model.now += 2
    (asked,) = model.poll()
    asked.on_response(InitProducerIdResponse(producer_id=10, producer_epoch=0), model.now)
    assert stamp(model, model.one()) == (10, 0, 0)


def test_a_split_batch_keeps_its_numbers() -> None:
    model = Model(batch_size=2000)
    for number in range(6):
        model.send(b"%d" % number * 100)
    model.answer(model.one(), code=10)
    first = model.one()
    assert stamp(model, first) == (9, 0, 0)
    model.answer(first)
    assert stamp(model, model.one()) == (9, 0, 3)


def test_a_split_batch_remembers_that_it_may_be_written() -> None:
    model = Model(batch_size=2000, delivery_timeout_ms=31_000)
    futures = [model.send(b"%d" % number * 100) for number in range(6)]
    model.answer(model.one(), code=NotLeaderOrFollowerError.code)
    model.now += 2
    model.answer(model.one(), code=RecordTooLargeError.code)
    model.nodes.down.add(1)
    model.now += 40
    model.poll()
    assert {type(future.exception(0)) for future in futures} == {DeliveryUnknownError}


def test_a_sequence_is_not_reused_after_a_leader_that_may_have_appended() -> None:
    model, (lost,) = full_batches(1, delivery_timeout_ms=31_000)
    assert stamp(model, lost) == (9, 0, 1)
    model.answer(lost, code=NotLeaderOrFollowerError.code)
    model.nodes.down.add(1)
    model.now += 40
    model.poll()
    assert isinstance(model.futures[0].exception(0), DeliveryUnknownError)
    model.nodes.down.clear()
    model.send()
    model.now += 5
    assert stamp(model, model.one()) == (9, 1, 0)


def test_illegal_transitions_raise() -> None:
    identity = Identity(True)
    with pytest.raises(IllegalStateError, match="producer id is 'unknown', where the event 'received' is not"):
        identity.change(IdentityEvent.RECEIVED)


def test_nothing_is_numbered_without_idempotence() -> None:
    model = Model(enable_idempotence=False)
    model.send()
    assert stamp(model, model.one()) == (-1, -1, -1)


def test_an_empty_partition_is_complete() -> None:
    assert PartitionSequence().is_complete
