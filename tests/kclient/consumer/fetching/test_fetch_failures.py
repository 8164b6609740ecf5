"""Fetching when something fails: connections, fetch sessions, authorization, batches and deserializers."""

from __future__ import annotations

import pytest

from kclient.consumer.assignment.topics import choose
from kclient.errors import (
    CorruptRecordError,
    DeserializationError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from tests.kclient.consumer.fetching.model import T0, model_with, offsets
from tests.support.consumer_model import Model


def test_lost_request_starts_a_new_session_and_nothing_is_missing() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run(rounds=3)
    model.poll()
    model.lose(model.outbox[0])
    model.logs[T0].append(b"b")
    model.now += 10
    model.run()
    assert offsets(model) == [0, 1]


def test_forgotten_session_is_opened_again() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run(rounds=3)
    model.sessions[1].known.clear()
    model.logs[T0].append(b"b")
    model.run()
    assert offsets(model) == [0, 1]


def test_forbidden_topic_is_raised_after_the_records_before_it() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run()
    model.logs[T0].error = TopicAuthorizationError.code
    model.run()
    assert offsets(model) == [0]
    with pytest.raises(TopicAuthorizationError) as raised:
        model.read()
    assert raised.value.topic == "t"


def test_corrupt_batch_is_raised_where_it_stands_and_fetched_again() -> None:
    model = model_with(b"a")
    log = model.logs[T0]
    log.append(b"b")
    whole = log.batches[1].data
    log.batches[1].data = whole[:-1] + bytes([whole[-1] ^ 1])
    model.assign(T0)
    model.run()
    assert offsets(model) == [0]
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as raised:
            model.read()
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 1)
        model.run()
    log.batches[1].data = whole
    with pytest.raises(CorruptRecordError):
        model.read()
    model.run()
    assert offsets(model) == [1]


def test_bytes_that_are_no_batch_are_an_error_and_not_a_silent_stop() -> None:
    model = model_with(b"a")
    log = model.logs[T0]
    log.batches[0].data = b"\0" * 100
    model.assign(T0)
    model.run()
    with pytest.raises(CorruptRecordError) as raised:
        model.read()
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("t", 0, 0)


def test_deserializer_that_fails_leaves_the_position_at_the_record() -> None:
    model = model_with(b"1", b"x", b"3", value_deserializer=int)
    model.assign(T0)
    model.run()
    assert [value for *_, value in model.read()] == [1]
    for _ in range(2):
        with pytest.raises(DeserializationError) as raised:
            model.read()
        assert raised.value.offset == 1
        position = model.subscription.state(T0).position
        assert position is not None
        assert position.offset == 1
    model.subscription.seek(T0, 2)
    model.run()
    assert [value for *_, value in model.read()] == [3]


def test_unreachable_leader_asks_for_metadata_and_is_tried_again() -> None:
    model = model_with(b"a")
    model.subscription.assign([T0])
    model.subscription.seek(T0, 0)
    model.nodes.down.add(1)
    model.metadata.update_requested = False
    assert model.poll() == []
    assert model.metadata.update_requested
    model.nodes.down.clear()
    model.now += 1
    model.run()
    assert offsets(model) == [0]


def test_unknown_topic_is_an_error_when_patience_ends() -> None:
    model = Model()
    model.metadata.errors["nope"] = UnknownTopicOrPartitionError(topic="nope")
    model.assign(("nope", 0))
    model.refresh()
    model.poll()
    assert model.subscription.errors == []
    model.now = 61.0
    model.poll()
    (error,) = model.subscription.errors
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert error.topic == "nope"


def test_forbidden_metadata_is_an_error_at_once() -> None:
    model = Model()
    model.metadata.errors["secret"] = TopicAuthorizationError(topic="secret")
    model.subscription.subscribe(choose("secret"))
    model.refresh()
    model.poll()
    assert [error.topic for error in model.subscription.errors] == ["secret"]
