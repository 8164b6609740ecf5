"""Resets of positions and lookups of offsets, by ListOffsets requests to the partitions' leaders."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.consumer.positions.list_offsets import Lookup
from kclient.errors import (
    ClosedError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from kclient.net.manager import Request
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.types import OffsetAndTimestamp
from tests.kclient.consumer.fetching.model import T0, T1, model_with, offsets
from tests.support.consumer_model import NOT_LEADER, Model
from tests.support.typed import built

FORBIDDEN, OLD_FORMAT = TopicAuthorizationError.code, 43
EARLIEST, LATEST = -2, -1
AFTER_BACKOFF = 10.0


def asked(request: Request) -> dict[tuple[str, int], int]:
    """The partitions that a ListOffsets request asks about, with their timestamps."""
    message = built(request, ListOffsetsRequest, 11)
    return {(topic.name, one.partition_index): one.timestamp for topic in message.topics for one in topic.partitions}


def look_up(model: Model, targets: dict[Any, int], timeout: float = 60.0) -> Lookup:
    lookup = Lookup(targets, timeout)
    model.offsets.add(lookup)
    model.metadata.update_requested = False
    return lookup


def answer_without(model: Model, partition: int) -> None:
    """Answer the one request that waits, with a response that leaves a partition out."""
    (request,) = model.outbox
    response = model.answer(request)
    for topic in response.topics:
        topic.partitions = [one for one in topic.partitions if one.partition_index != partition]
    model.outbox.clear()
    model.respond(request, response)


def test_reset_is_asked_of_the_leader_with_the_isolation_level() -> None:
    model = model_with(b"a", isolation_level="read_committed")
    model.assign(T0)
    (request,) = model.poll()
    assert request.request_type is ListOffsetsRequest
    message = built(request, ListOffsetsRequest, 11)
    assert (message.isolation_level, message.topics[0].partitions[0].timestamp) == (1, -2)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", [3, 4, 5]), ("latest", [5])])
def test_reset_starts_where_the_policy_says(policy: str, expected: list[int]) -> None:
    model = model_with(auto_offset_reset=policy)
    log = model.logs[T0]
    log.start = 3
    log.append(b"a", b"b")
    model.assign(T0)
    model.run()
    log.append(b"c")
    model.run()
    assert offsets(model) + offsets(model) == expected


def test_no_position_and_no_policy_is_an_error() -> None:
    model = model_with(b"x", auto_offset_reset="none")
    model.subscription.assign([T0])
    with pytest.raises(NoOffsetForPartitionError):
        model.subscription.start_uninitialized()


def test_reset_by_duration_goes_to_the_end_where_no_record_is_that_recent() -> None:
    model = model_with(b"a", b"b", auto_offset_reset="by_duration:PT1S")
    model.assign(T0)
    (request,) = model.poll()
    assert asked(request) == {T0: 9_000}
    model.deliver()
    (request,) = model.poll()
    assert asked(request) == {T0: LATEST}
    model.run()
    assert model.subscription.state(T0).fetch_offset == 2


def test_partitions_of_one_leader_are_asked_about_in_one_request() -> None:
    model = Model()
    model.add_topic("t", 2)
    model.add_topic("u")
    model.logs[T1].leader = 1
    model.refresh()
    model.assign(T0, T1, ("u", 0))
    (request,) = model.poll()
    assert (request.node, asked(request)) == (1, {T0: EARLIEST, T1: EARLIEST, ("u", 0): EARLIEST})
    message = built(request, ListOffsetsRequest, 11)
    assert [topic.name for topic in message.topics] == ["t", "u"]


def test_reset_that_the_response_omits_is_asked_again_after_a_pause() -> None:
    model = Model()
    first, second = model.add_topic("t", 2)
    second.leader = first.leader
    first.append(b"a")
    second.append(b"b")
    model.refresh()
    model.assign(T0, T1)
    model.poll()
    answer_without(model, 1)
    assert model.metadata.update_requested
    assert not any(request.request_type is ListOffsetsRequest for request in model.poll())
    model.outbox.clear()
    model.now += AFTER_BACKOFF
    assert [asked(request) for request in model.poll() if request.request_type is ListOffsetsRequest] == [
        {T1: EARLIEST}
    ]


def test_reset_follows_a_leader_that_moved() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.poll()
    model.logs[T0].move(2)
    model.deliver()
    assert model.metadata.update_requested
    model.now += AFTER_BACKOFF
    model.run()
    assert offsets(model) == [0]


def test_reset_that_is_forbidden_is_raised_for_its_partition() -> None:
    model = model_with(b"a")
    model.logs[T0].error = FORBIDDEN
    model.assign(T0)
    model.run(rounds=1)
    with pytest.raises(TopicAuthorizationError) as raised:
        model.read()
    assert (raised.value.topic, raised.value.partition, raised.value.api) == ("t", 0, "ListOffsets")


def test_reset_answered_after_a_seek_changes_nothing() -> None:
    model = model_with(b"a", b"b")
    model.assign(T0)
    model.poll()
    model.subscription.seek(T0, 1)
    model.deliver()
    model.run()
    assert offsets(model) == [1]


def test_lookup_returns_offset_and_timestamp_or_none_where_no_record_is_that_recent() -> None:
    model = Model()
    first, _ = model.add_topic("t", 2)
    first.append(b"a", b"b")
    lookup = look_up(model, {T0: 1_001, T1: 1_001})
    model.run()
    assert lookup.future.result(0) == {T0: OffsetAndTimestamp(1, 1_001, None), T1: None}


def test_lookup_of_records_in_the_oldest_format_finds_none() -> None:
    model = model_with(b"a")
    model.logs[T0].error = OLD_FORMAT
    lookup = look_up(model, {T0: 1_000})
    model.run(rounds=1)
    assert lookup.future.result(0) == {T0: None}


def test_lookups_of_one_partition_take_one_request_each() -> None:
    model = model_with(b"a", b"b")
    lookups = [look_up(model, {T0: timestamp}) for timestamp in (EARLIEST, LATEST)]
    assert [asked(request) for request in model.poll()] == [{T0: EARLIEST}, {T0: LATEST}]
    model.run()
    found = [lookup.future.result(0)[T0] for lookup in lookups]
    assert [one and one.offset for one in found] == [0, 2]


def test_lookup_asks_again_only_for_what_the_response_omitted() -> None:
    model = Model()
    first, second = model.add_topic("t", 2)
    second.leader = first.leader
    model.refresh()
    lookup = look_up(model, {T0: LATEST, T1: LATEST})
    model.poll()
    answer_without(model, 0)
    assert not lookup.future.done()
    assert isinstance(lookup.last_error, UnknownTopicOrPartitionError)
    assert (lookup.last_error.topic, lookup.last_error.partition) == T0
    assert model.metadata.update_requested
    assert model.poll() == []
    model.now += AFTER_BACKOFF
    (request,) = model.poll()
    assert asked(request) == {T0: LATEST}
    model.deliver()
    assert lookup.future.result(0).keys() == {T0, T1}


def test_lookup_ends_with_the_first_error_that_stays() -> None:
    model = Model()
    first, _ = model.add_topic("t", 2)
    first.error = FORBIDDEN
    lookup = look_up(model, {T0: LATEST, T1: LATEST})
    for request in model.poll():
        if request.node == 1:
            model.deliver(request)
    assert isinstance(lookup.future.exception(0), TopicAuthorizationError)


def test_lookup_that_takes_too_long_names_its_partition_and_the_last_error() -> None:
    model = model_with(b"a")
    model.logs[T0].error = NOT_LEADER
    lookup = look_up(model, {T0: LATEST}, timeout=5.0)
    model.poll()
    model.deliver()
    model.now += 5.0
    assert model.poll() == []
    error = lookup.future.exception(0)
    assert isinstance(error, KafkaTimeoutError)
    assert "no response within 5 s about the offsets of t-0; the last error: " in str(error)


def test_lookups_under_way_fail_when_the_consumer_closes() -> None:
    model = model_with(b"a")
    lookup = look_up(model, {T0: LATEST})
    model.poll()
    model.offsets.fail_all(ClosedError("closed"))
    model.deliver()
    assert isinstance(lookup.future.exception(0), ClosedError)
