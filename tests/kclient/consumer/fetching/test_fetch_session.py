"""Fetch sessions (KIP-227): what a request omits, and when it starts over."""

from __future__ import annotations

import uuid

import pytest

from kclient.consumer.fetching.fetch_session import FetchSession, FetchTarget, build_fetch
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
ID_A, ID_B, NEW_A = (uuid.UUID(int=number) for number in (1, 2, 3))
NO_ID = uuid.UUID(int=0)


def target(offset: int, topic_id: uuid.UUID = ID_A) -> FetchTarget:
    return FetchTarget(topic_id, offset, 1_000)


def opened(**targets: FetchTarget) -> FetchSession:
    session = FetchSession()
    session.next_request({A: targets["a"], B: targets["b"]} if "b" in targets else {A: targets["a"]})
    assert session.accept(FetchResponse(session_id=77))
    return session


def build(session: FetchSession, targets: dict[TopicPartition, FetchTarget], version: int) -> FetchRequest:
    message = build_fetch(
        session.next_request(targets),
        version,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10_000,
        isolation_level=0,
        rack="",
    )
    return FetchRequest.decode(message.encode(version), version)


def test_first_request_is_full_and_opens_a_session() -> None:
    request = FetchSession().next_request({A: target(5)})
    assert (request.session_id, request.epoch) == (0, 0)
    assert request.send == {A: target(5)}


def test_later_requests_carry_only_what_changed() -> None:
    session = opened(a=target(5), b=target(1, ID_B))
    request = session.next_request({A: target(9), B: target(1, ID_B)})
    assert (request.session_id, request.epoch) == (77, 1)
    assert request.send == {A: target(9)}
    assert request.forget == []


def test_epoch_grows_with_every_answer_and_wraps_to_one() -> None:
    session = opened(a=target(5))
    for expected in (1, 2, 3):
        assert session.next_request({A: target(5)}).epoch == expected
        session.accept(FetchResponse(session_id=77))
    session.epoch = 2**31 - 1
    session.accept(FetchResponse(session_id=77))
    assert session.epoch == 1


def test_partition_that_is_not_wanted_is_forgotten() -> None:
    session = opened(a=target(5), b=target(1, ID_B))
    request = session.next_request({B: target(1, ID_B)})
    assert request.send == {}
    assert request.forget == [(A, ID_A)]


def test_topic_created_again_is_forgotten_under_its_old_id() -> None:
    session = opened(a=target(5))
    request = session.next_request({A: target(5, NEW_A)})
    assert request.send == {A: target(5, NEW_A)}
    assert request.forget == [(A, ID_A)]


def test_unknown_session_starts_over_with_a_new_one() -> None:
    session = opened(a=target(5))
    assert not session.accept(FetchResponse(error_code=70))
    request = session.next_request({A: target(5)})
    assert (request.session_id, request.epoch, request.send) == (0, 0, {A: target(5)})


@pytest.mark.parametrize("how", ["invalid epoch", "no answer"])
def test_session_out_of_step_is_replaced_by_a_full_request_that_names_it(how: str) -> None:
    session = opened(a=target(5))
    if how == "no answer":
        session.fail()
    else:
        assert not session.accept(FetchResponse(error_code=71))
    request = session.next_request({A: target(5)})
    assert (request.session_id, request.epoch, request.send) == (77, 0, {A: target(5)})


def test_broker_that_grants_no_session_gets_full_requests() -> None:
    session = FetchSession()
    for _ in range(2):
        request = session.next_request({A: target(5)})
        assert (request.session_id, request.epoch, request.send) == (0, 0, {A: target(5)})
        session.accept(FetchResponse(session_id=0))


def test_topic_without_an_id_makes_the_session_speak_names() -> None:
    session = opened(a=target(5))
    request = session.next_request({A: target(5), B: target(0, NO_ID)})
    assert not request.uses_ids
    assert request.epoch == 0
    assert set(request.send) == {A, B}


def test_closing_request_ends_the_session() -> None:
    assert FetchSession().closing_request() is None
    closing = opened(a=target(5)).closing_request()
    assert closing is not None
    assert (closing.session_id, closing.epoch, closing.send) == (77, -1, {})


@pytest.mark.parametrize("version", range(4, 19))
def test_message_of_every_version_carries_the_targets(version: int) -> None:
    message = build(FetchSession(), {A: target(5), A._replace(partition=1): target(6), B: target(7, ID_B)}, version)
    topics = [(topic.topic_id if version >= 13 else topic.topic) for topic in message.topics]
    assert topics == ([ID_A, ID_B] if version >= 13 else ["a", "b"])
    assert [p.fetch_offset for p in message.topics[0].partitions] == [5, 6]
    assert message.topics[1].partitions[0].partition_max_bytes == 1_000


@pytest.mark.parametrize("version", [4, 6, 7, 12, 13, 18])
def test_incremental_message_forgets_by_name_or_id_and_before_sessions_says_all(version: int) -> None:
    message = build(opened(a=target(5), b=target(1, ID_B)), {B: target(1, ID_B)}, version)
    if version < 7:
        assert [topic.topic for topic in message.topics] == ["b"]
    else:
        assert message.topics == []
        forgotten = message.forgotten_topics_data[0]
        assert (forgotten.topic_id if version >= 13 else forgotten.topic) == (ID_A if version >= 13 else "a")
        assert forgotten.partitions == [0]
