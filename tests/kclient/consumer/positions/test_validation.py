"""Validation of positions by OffsetForLeaderEpoch (KIP-320), and truncations that it or a fetch finds."""

from __future__ import annotations

import pytest

from kclient.errors import LogTruncationError, TopicAuthorizationError
from kclient.net.manager import Request
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kclient.types import OffsetAndMetadata
from tests.kclient.consumer.fetching.model import T0, model_with, offsets
from tests.support.consumer_model import Model

AFTER_BACKOFF = 10.0


def moved_leader(**options: object) -> Model:
    """A model whose application has read two records, and whose partition has moved to node 2 since."""
    model = model_with(b"a", b"b", **options)
    model.assign(T0)
    model.run()
    assert offsets(model) == [0, 1]
    model.logs[T0].move(2)
    model.refresh()
    return model


def validations(model: Model) -> list[Request]:
    """The requests for validation that are sent now; all others are dropped."""
    model.outbox = [one for one in model.poll() if one.request_type is OffsetForLeaderEpochRequest]
    return list(model.outbox)


def test_position_is_validated_with_the_new_leader() -> None:
    model = model_with(b"a", b"b")
    model.assign(T0)
    model.run()
    offsets(model)
    model.logs[T0].move(2)
    model.refresh()
    kinds = [request.request_type for request in model.poll() if request.node == 2]
    assert kinds == [OffsetForLeaderEpochRequest]


@pytest.mark.parametrize("version", [11, 18])
def test_truncation_goes_back_to_where_the_log_diverges(version: int) -> None:
    model = model_with(versions={FetchRequest: version})
    log = model.logs[T0]
    for value in (b"a", b"b", b"c"):
        log.append(value)
    model.assign(T0)
    model.run()
    assert offsets(model) == [0, 1, 2]
    log.truncate(1)
    log.move(2)
    log.append(b"B", b"C")
    model.run()
    # The first read meets the truncation, and moves the position; what follows is fetched from there.
    seen = model.read()
    model.run()
    seen += model.read()
    assert seen == [("t", 0, 1, b"B"), ("t", 0, 2, b"C")]


def test_truncation_without_a_policy_is_an_error_with_the_diverging_offset() -> None:
    model = model_with(auto_offset_reset="none")
    log = model.logs[T0]
    for value in (b"a", b"b", b"c"):
        log.append(value)
    model.subscription.assign([T0])
    model.subscription.seek(T0, 0)
    model.run()
    assert offsets(model) == [0, 1, 2]
    log.truncate(1)
    log.move(2)
    model.run()
    with pytest.raises(LogTruncationError) as raised:
        model.read()
    assert raised.value.divergent_offsets == {T0: OffsetAndMetadata(1, leader_epoch=0)}
    assert raised.value.fetch_offsets == {T0: 3}


def test_truncation_of_what_was_only_prefetched_is_not_seen() -> None:
    model = model_with(max_partition_fetch_bytes=100)
    log = model.logs[T0]
    for value in (b"a", b"b", b"c"):
        log.append(value)
    model.assign(T0)
    model.run(rounds=10)
    assert model.read(1) == [("t", 0, 0, b"a")]
    log.truncate(1)
    log.move(2)
    log.append(b"B")
    log.append(b"C")
    model.refresh()
    model.run()
    seen = model.read()
    model.run()
    assert seen + model.read() == [("t", 0, 1, b"B"), ("t", 0, 2, b"C")]


def test_validation_that_the_response_omits_is_asked_again_after_a_pause() -> None:
    model = moved_leader()
    (request,) = validations(model)
    response = model.answer(request)
    response.topics = []
    model.metadata.update_requested = False
    model.respond(request, response)
    assert model.metadata.update_requested
    assert validations(model) == []
    model.now += AFTER_BACKOFF
    assert [request.node for request in validations(model)] == [2]
    model.logs[T0].append(b"c")
    model.run()
    assert offsets(model) == [2]


def test_validation_that_is_lost_is_asked_again_after_a_pause() -> None:
    model = moved_leader()
    validations(model)
    model.lose()
    assert validations(model) == []
    model.now += AFTER_BACKOFF
    assert [request.node for request in validations(model)] == [2]


def test_validation_that_is_forbidden_is_raised_for_its_partition() -> None:
    model = moved_leader()
    validations(model)
    model.logs[T0].error = TopicAuthorizationError.code
    model.deliver()
    with pytest.raises(TopicAuthorizationError) as raised:
        model.read()
    assert (raised.value.topic, raised.value.partition, raised.value.api) == ("t", 0, "OffsetForLeaderEpoch")


def test_validation_answered_after_a_seek_changes_nothing() -> None:
    model = moved_leader()
    validations(model)
    model.logs[T0].truncate(0)
    model.logs[T0].append(b"A", b"B", b"C")
    model.subscription.seek(T0, 2)
    model.deliver()
    model.run()
    assert offsets(model) == [2]


def test_broker_that_cannot_validate_is_not_asked() -> None:
    model = moved_leader(versions={OffsetForLeaderEpochRequest: 2})
    assert validations(model) == []
    model.logs[T0].append(b"c")
    model.run()
    assert offsets(model) == [2]
