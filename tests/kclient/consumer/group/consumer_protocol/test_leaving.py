"""How a member of the consumer protocol leaves: as its owner wants it, or because the application is too slow."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from kclient import errors
from kclient.consumer.group.events import Rejoin
from kclient.errors import (
    DisconnectedError,
    MaxPollExceeded,
)
from tests.kclient.consumer.group.consumer_protocol.member_case import Case, State, T
from tests.support.typed import reread


@pytest.mark.parametrize(
    ("instance_id", "tell", "epoch"), [(None, True, -1), (None, False, None), ("i", False, -2), ("i", True, -1)]
)
def test_how_a_member_leaves(instance_id: str | None, tell: bool, epoch: int | None) -> None:
    case = Case(group_instance_id=instance_id).stable()
    case.member.prepare_leaving()
    assert case.state is State.PREPARE_LEAVING
    assert case.member.generation_now() is not None, "it can still commit"
    case.answer(epoch=5, assigned={T: [7]})
    assert not case.events, "it takes nothing new"
    done: Future[None] = Future()
    requests = case.member.leave(done, tell=tell, reason="")
    if epoch is None:
        assert not requests
    else:
        (request,) = requests
        message: Any = request.build(1)
        assert (message.member_epoch, message.instance_id, message.topic_partitions) == (epoch, instance_id, None)
        assert reread(case.state) is State.LEAVING
        assert case.sent() is None
        assert not done.done()
        case.answer(request=request, epoch=epoch)
    assert done.done()
    assert reread(case.state) is State.UNSUBSCRIBED
    assert case.member.generation_now() is None


@pytest.mark.parametrize("how", ["error", "lost"])
def test_leaving_is_over_whatever_comes_of_it(how: str) -> None:
    case = Case().stable()
    done: Future[None] = Future()
    (request,) = case.member.leave(done, tell=True, reason="")
    case.subscribe("u")
    assert case.sent() is None
    if how == "error":
        case.answer(errors.NotCoordinatorError.code, request=request)
    else:
        request.on_error(DisconnectedError("gone"), case.now)
    assert done.done()
    assert case.next_heartbeat()[1].subscribed_topic_names == ["u"]
    assert not case.events


@pytest.mark.parametrize("asked", [False, True])
def test_nobody_is_told_by_a_member_that_never_asked_or_has_no_coordinator(asked: bool) -> None:
    case = Case()
    case.subscribe("t")
    case.coordinator.node = 1 if asked else None
    assert (case.sent() is not None) is asked
    case.coordinator.node = None if asked else 1
    done: Future[None] = Future()
    assert case.member.leave(done, tell=True, reason="") == []
    assert done.done()
    assert case.state is State.UNSUBSCRIBED


def test_member_that_is_fenced_while_it_prepares_to_leave_has_left() -> None:
    case = Case().stable()
    case.member.prepare_leaving()
    case.answer(errors.UnknownMemberIdError.code)
    assert case.state is State.UNSUBSCRIBED
    assert case.member.membership == 1
    assert not case.events
    done: Future[None] = Future()
    assert case.member.leave(done, tell=True, reason="") == []
    assert done.done()


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_member_whose_application_is_too_slow_leaves_and_joins_with_its_next_call(
    instance_id: str | None, epoch: int
) -> None:
    case = Case(max_poll_interval_ms=10_000, group_instance_id=instance_id).stable()
    case.interval.polled(case.now)
    case.now += 9.9
    case.answer()
    case.now += 0.2
    request, message = case.next_heartbeat()
    assert message.member_epoch == epoch
    assert case.state is State.STALE
    (event,) = case.events
    assert isinstance(event, Rejoin)
    assert event.lost
    assert isinstance(event.error, MaxPollExceeded)
    assert case.sent() is None
    case.interval.polled(case.now)
    case.subscribe("t")
    assert reread(case.state) is State.JOINING
    case.answer(errors.UnknownMemberIdError.code, request=request)
    assert reread(case.state) is State.JOINING, "how leaving went is of no concern any more"
    assert case.next_heartbeat()[1].member_epoch == 0


def test_slow_application_is_noticed_without_a_coordinator_and_while_a_heartbeat_is_out() -> None:
    case = Case(max_poll_interval_ms=10_000).stable()
    case.interval.polled(case.now)
    case.next_heartbeat()
    case.coordinator.node = None
    case.now += 11.0
    assert case.sent() is None
    assert case.state is State.STALE
