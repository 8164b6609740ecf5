"""Fetching when a position no longer fits the log: new leaders, truncation, offsets out of range, other replicas."""

from __future__ import annotations

import pytest

from kclient.errors import OffsetOutOfRangeError
from tests.kclient.consumer.fetching.model import T0, model_with, offsets
from tests.support.consumer_model import FENCED, NOT_LEADER


@pytest.mark.parametrize("code", [NOT_LEADER, FENCED])
def test_leader_that_moved_is_found_by_fresh_metadata_and_nothing_repeats(code: int) -> None:
    model = model_with(b"a", b"b")
    model.assign(T0)
    model.run()
    assert offsets(model) == [0, 1]
    log = model.logs[T0]
    log.move(2)
    log.append(b"c")
    if code == FENCED:
        log.error = FENCED
        model.run(rounds=1)
        log.error = 0
    model.now += 10
    model.run()
    assert offsets(model) == [2]


def test_out_of_range_resets_by_policy_once_everything_before_it_was_read() -> None:
    model = model_with(*[b"x"] * 3)
    model.assign(T0)
    model.run()
    log = model.logs[T0]
    log.batches.clear()
    log.start = 10
    log.append(b"y")
    model.run()
    assert offsets(model) == [0, 1, 2]
    assert offsets(model) == []
    model.run()
    assert offsets(model) == [10]


def test_out_of_range_without_a_policy_names_partition_and_offset_again_and_again() -> None:
    model = model_with(b"x", auto_offset_reset="none")
    model.subscription.assign([T0])
    model.subscription.seek(T0, 50)
    for _ in range(2):
        model.run()
        with pytest.raises(OffsetOutOfRangeError) as raised:
            model.read()
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 50)
    model.subscription.seek(T0, 0)
    model.run()
    assert offsets(model) == [0]


def test_near_replica_is_read_and_left_when_it_is_out_of_range() -> None:
    model = model_with(b"a")
    log = model.logs[T0]
    log.preferred = 3
    model.assign(T0)
    model.run(rounds=2)
    (request,) = model.poll()
    assert request.node == 3
    model.deliver()
    assert offsets(model) == [0]
    (request,) = model.poll()
    response = model.answer(request)
    response.responses = [response_with_error(request, 1)]
    model.outbox.clear()
    model.respond(request, response)
    (request,) = model.poll()
    assert request.node == log.leader
    assert offsets(model) == []


def response_with_error(request: object, code: int) -> object:
    from kclient.protocol.messages.fetch import FetchResponse

    message = request.build(12)  # type: ignore[attr-defined]
    return FetchResponse.FetchableTopicResponse(
        topic=message.topics[0].topic if message.topics else "t",
        partitions=[FetchResponse.PartitionData(partition_index=0, error_code=code)],
    )
