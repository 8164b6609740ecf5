"""How a member of the consumer protocol leaves: as its owner wants it, or because the application is too slow."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from kclient import errors
from kclient.consumer.group.events import Rejoin
from kclient.errors import (
    DisconnectedError,
    MaxPollIntervalExceededError,
)
from tests.kclient.consumer.group.consumer_protocol.scripted_member import ConsumerProtocolMember, State, T
from tests.support.typed import reread


@pytest.mark.parametrize(
    ("instance_id", "tell", "epoch"), [(None, True, -1), (None, False, None), ("i", False, -2), ("i", True, -1)]
)
def test_how_a_member_leaves(instance_id: str | None, tell: bool, epoch: int | None) -> None:
    scripted = ConsumerProtocolMember(group_instance_id=instance_id).stable()
    scripted.member.prepare_leaving()
    assert scripted.state is State.PREPARE_LEAVING
    assert scripted.member.generation_now() is not None, "it can still commit"
    scripted.answer(epoch=5, assigned={T: [7]})
    assert not scripted.events, "it takes nothing new"
    done: Future[None] = Future()
    requests = scripted.member.leave(done, tell=tell, reason="")
    if epoch is None:
        assert not requests
    else:
        (request,) = requests
        message: Any = request.build(1)
        assert (message.member_epoch, message.instance_id, message.topic_partitions) == (epoch, instance_id, None)
        assert reread(scripted.state) is State.LEAVING
        assert scripted.sent() is None
        assert not done.done()
        scripted.answer(request=request, epoch=epoch)
    assert done.done()
    assert reread(scripted.state) is State.UNSUBSCRIBED
    assert scripted.member.generation_now() is None


@pytest.mark.parametrize("how", ["error", "lost"])
def test_leaving_is_over_whatever_comes_of_it(how: str) -> None:
    scripted = ConsumerProtocolMember().stable()
    done: Future[None] = Future()
    (request,) = scripted.member.leave(done, tell=True, reason="")
    scripted.subscribe("u")
    assert scripted.sent() is None
    if how == "error":
        scripted.answer(errors.NotCoordinatorError.code, request=request)
    else:
        request.on_error(DisconnectedError("gone"), scripted.now)
    assert done.done()
    assert scripted.next_heartbeat()[1].subscribed_topic_names == ["u"]
    assert not scripted.events


@pytest.mark.parametrize("asked", [False, True])
def test_nobody_is_reported_by_a_member_that_never_asked_or_has_no_coordinator(asked: bool) -> None:
    scripted = ConsumerProtocolMember()
    scripted.subscribe("t")
    scripted.coordinator.node = 1 if asked else None
    assert (scripted.sent() is not None) is asked
    scripted.coordinator.node = None if asked else 1
    done: Future[None] = Future()
    assert scripted.member.leave(done, tell=True, reason="") == []
    assert done.done()
    assert scripted.state is State.UNSUBSCRIBED


def test_member_that_is_fenced_while_it_prepares_to_leave_has_left() -> None:
    scripted = ConsumerProtocolMember().stable()
    scripted.member.prepare_leaving()
    scripted.answer(errors.UnknownMemberIdError.code)
    assert scripted.state is State.UNSUBSCRIBED
    assert scripted.member.membership == 1
    assert not scripted.events
    done: Future[None] = Future()
    assert scripted.member.leave(done, tell=True, reason="") == []
    assert done.done()


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_member_whose_application_is_too_slow_leaves_and_joins_with_its_next_call(
    instance_id: str | None, epoch: int
) -> None:
    scripted = ConsumerProtocolMember(max_poll_interval_ms=10_000, group_instance_id=instance_id).stable()
    scripted.interval.polled(scripted.now)
    scripted.now += 9.9
    scripted.answer()
    scripted.now += 0.2
    request, message = scripted.next_heartbeat()
    assert message.member_epoch == epoch
    assert scripted.state is State.STALE
    (event,) = scripted.events
    assert isinstance(event, Rejoin)
    assert event.lost
    assert isinstance(event.error, MaxPollIntervalExceededError)
    assert scripted.sent() is None
    scripted.interval.polled(scripted.now)
    scripted.subscribe("t")
    assert reread(scripted.state) is State.JOINING
    scripted.answer(errors.UnknownMemberIdError.code, request=request)
    assert reread(scripted.state) is State.JOINING, "the outcome of leaving must not matter"
    assert scripted.next_heartbeat()[1].member_epoch == 0


def test_a_slow_application_is_noticed_without_a_coordinator_and_during_a_heartbeat() -> None:
    scripted = ConsumerProtocolMember(max_poll_interval_ms=10_000).stable()
    scripted.interval.polled(scripted.now)
    scripted.next_heartbeat()
    scripted.coordinator.node = None
    scripted.now += 11.0
    assert scripted.sent() is None
    assert scripted.state is State.STALE
