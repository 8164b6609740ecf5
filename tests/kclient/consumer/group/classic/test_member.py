"""The member against a scripted coordinator: what each answer leads to, and what the timers do."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from kclient import errors
from kclient.consumer.group.classic.member import GroupMember
from kclient.consumer.group.classic.states import MemberState
from kclient.consumer.group.events import Assigned, Failed, JoinData, Lead, Rejoin
from kclient.errors import DisconnectedError, MaxPollIntervalExceededError, NotKafkaError
from kclient.net.manager import NEVER, Request
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.kclient.consumer.group.classic.scripted_member import ScriptedMember

UNJOINED, PREPARING, COMPLETING = MemberState.UNJOINED, MemberState.PREPARING, MemberState.COMPLETING
STABLE, LEAVING, FENCED = MemberState.STABLE, MemberState.LEAVING, MemberState.FENCED


class ClassicMember(ScriptedMember[GroupMember]):
    """A member of the classic protocol, its coordinator, and the time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(GroupMember, **options)
        self.joins = 0

    def join(self, holding: int | None = None) -> None:
        self.joins += 1
        self.member.join(JoinData(self.joins, [("range", b"mine")], "because", holding))

    def answer_join(
        self,
        request: Request | None = None,
        *,
        leader: str = "other",
        error: int = 0,
        member_id: str = "me",
        **fields: Any,
    ) -> None:
        request = request or self.next(JoinGroupRequest)[0]
        fields = {"generation_id": 5, "protocol_type": "consumer", "protocol_name": "range", **fields}
        request.on_response(JoinGroupResponse(error_code=error, leader=leader, member_id=member_id, **fields), self.now)

    def answer_sync(self, error: int = 0, **fields: Any) -> None:
        request, _ = self.next(SyncGroupRequest)
        request.on_response(SyncGroupResponse(error_code=error, assignment=b"share", **fields), self.now)

    def answer_heartbeat(self, error: int = 0) -> None:
        request, message = self.next(HeartbeatRequest)
        assert (message.generation_id, message.member_id) == (5, "me")
        request.on_response(HeartbeatResponse(error_code=error), self.now)

    def stable(self, holding: int | None = None) -> ClassicMember:
        self.join(holding)
        self.answer_join()
        self.answer_sync()
        assert self.member.state is STABLE
        return self


def code(kind: type[errors.BrokerError]) -> int:
    return kind.code


def test_follower_joins_asks_for_its_share_and_heartbeats() -> None:
    scripted = ClassicMember()
    scripted.join()
    request, message = scripted.next(JoinGroupRequest)
    assert (message.group_id, message.member_id, message.reason) == ("g", "", "because")
    assert (message.session_timeout_ms, message.rebalance_timeout_ms) == (45_000, 300_000)
    assert [(one.name, one.metadata) for one in message.protocols] == [("range", b"mine")]
    assert request.timeout == 305.0
    assert scripted.sent() is None
    request.on_response(JoinGroupResponse(error_code=79, member_id="me"), scripted.now)
    request, message = scripted.next(JoinGroupRequest)
    assert message.member_id == "me"
    scripted.answer_join(request)
    request, message = scripted.next(SyncGroupRequest)
    assert (message.generation_id, message.member_id, message.protocol_name) == (5, "me", "range")
    assert message.assignments == []
    assert scripted.member.generation_now() is None
    request.on_response(SyncGroupResponse(assignment=b"share"), scripted.now)
    generation = scripted.member.generation_now()
    assert generation is not None
    assert (generation.id, generation.member_id) == (5, "me")
    assert scripted.events == [Assigned(1, 0, generation, b"share")]
    joined_at = scripted.now
    scripted.answer_heartbeat()
    assert scripted.now == joined_at + 3.0


def test_leader_waits_for_its_owner_and_heartbeats_meanwhile() -> None:
    scripted = ClassicMember()
    scripted.join()
    scripted.answer_join(
        leader="me",
        members=[JoinGroupResponse.JoinGroupResponseMember(member_id="me", metadata=b"mine")],
        skip_assignment=True,
    )
    (event,) = scripted.events
    assert isinstance(event, Lead)
    assert event.skip
    assert event.members[0].metadata == b"mine"
    scripted.answer_heartbeat()
    scripted.answer_heartbeat(code(errors.RebalanceInProgressError))  # SyncGroup will tell
    assert scripted.member.leads(event.generation)
    scripted.member.sync(event.generation._replace(id=4), {"me": b"old"})
    scripted.member.sync(event.generation, {"me": b"all"})
    _, message = scripted.next(SyncGroupRequest)
    assert [(one.member_id, one.assignment) for one in message.assignments] == [("me", b"all")]


@pytest.mark.parametrize(
    ("kind", "member_id", "moved"),
    [
        (errors.CoordinatorLoadInProgressError, "me", False),
        (errors.CoordinatorNotAvailableError, "me", True),
        (errors.NotCoordinatorError, "me", True),
        (errors.RebalanceInProgressError, "me", False),
        (errors.UnknownMemberIdError, "", False),
        (errors.IllegalGenerationError, "me", False),
    ],
)
def test_join_is_repeated_by_itself_after_errors_that_pass(
    kind: type[errors.BrokerError], member_id: str, moved: bool
) -> None:
    scripted = ClassicMember()
    scripted.join()
    scripted.answer_join(error=79)
    scripted.answer_join(error=code(kind))
    assert bool(scripted.coordinator.forgotten) is moved
    _, message = scripted.next(JoinGroupRequest)
    assert message.member_id == member_id
    assert not scripted.events


@pytest.mark.parametrize(
    "kind",
    [
        errors.InconsistentGroupProtocolError,
        errors.InvalidSessionTimeoutError,
        errors.InvalidGroupIdError,
        errors.GroupAuthorizationError,
        errors.GroupMaxSizeReachedError,
        errors.UnsupportedVersionError,
        errors.UnknownServerError,
    ],
)
def test_join_that_cannot_succeed_is_reported_and_tried_again_when_the_owner_joins(
    kind: type[errors.BrokerError],
) -> None:
    scripted = ClassicMember()
    scripted.join()
    scripted.answer_join(error=code(kind))
    (event,) = scripted.events
    assert isinstance(event, Failed)
    assert isinstance(event.error, kind)
    assert scripted.member.state is UNJOINED
    assert scripted.member.poll(scripted.now) == ([], NEVER)
    scripted.join()
    scripted.answer_join()
    assert scripted.member.state is COMPLETING


def test_group_of_another_kind_is_an_error() -> None:
    scripted = ClassicMember()
    scripted.join()
    scripted.answer_join(protocol_type="connect")
    (event,) = scripted.events
    assert isinstance(event, Failed)
    assert "is one of 'connect', not of consumers" in str(event.error)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (errors.RebalanceInProgressError, PREPARING),
        (errors.CoordinatorNotAvailableError, PREPARING),
        (errors.NotCoordinatorError, PREPARING),
        (errors.CoordinatorLoadInProgressError, PREPARING),
        (errors.UnknownMemberIdError, PREPARING),
        (errors.IllegalGenerationError, PREPARING),
        (errors.InvalidRequestError, PREPARING),
        (errors.GroupAuthorizationError, UNJOINED),
        (errors.InconsistentGroupProtocolError, UNJOINED),
        (errors.FencedInstanceIdError, FENCED),
    ],
)
def test_what_follows_from_a_refused_sync(kind: type[errors.BrokerError], state: MemberState) -> None:
    scripted = ClassicMember()
    scripted.join()
    scripted.answer_join()
    scripted.answer_sync(code(kind))
    assert scripted.member.state is state
    if state is PREPARING:
        _, message = scripted.next(JoinGroupRequest)
        assert message.member_id == ("" if kind is errors.UnknownMemberIdError else "me")
        assert not scripted.events
    else:
        assert isinstance(scripted.events[-1], Rejoin if state is FENCED else Failed)


def refused_syncs(scripted: ClassicMember, count: int) -> list[float]:
    """Joins whose SyncGroup is refused as invalid; the seconds that each waited."""
    pauses = []
    for _ in range(count):
        before = scripted.now
        scripted.answer_join()
        pauses.append(scripted.now - before)
        scripted.answer_sync(code(errors.InvalidRequestError))
    return pauses


def test_syncs_that_are_always_refused_are_retried_with_backoff_and_then_reported() -> None:
    scripted = ClassicMember()
    for _ in range(2):
        scripted.events.clear()
        scripted.join()
        pauses = refused_syncs(scripted, 2)
        assert not scripted.events
        pauses += refused_syncs(scripted, 1)
        assert pauses[0] == 0.0
        assert 0.08 <= pauses[1] <= 0.12
        assert 0.16 <= pauses[2] <= 0.24
        (event,) = scripted.events
        assert isinstance(event, Failed)
        assert isinstance(event.error, errors.InvalidRequestError)
        assert scripted.member.state is UNJOINED
        assert scripted.member.poll(scripted.now) == ([], NEVER)


def test_sync_that_succeeds_makes_good_those_that_were_refused_before() -> None:
    scripted = ClassicMember()
    for _ in range(3):
        scripted.join()
        refused_syncs(scripted, 2)
        scripted.answer_join()
        scripted.answer_sync()
        assert scripted.member.state is STABLE
    assert [type(event) for event in scripted.events] == [Assigned] * 3


def test_owner_that_rejoins_before_it_knows_of_the_fencing_is_notified_again() -> None:
    scripted = ClassicMember().stable()
    scripted.answer_heartbeat(code(errors.FencedInstanceIdError))
    scripted.join()
    told = scripted.events[-1]
    assert isinstance(told, Rejoin)
    assert (told.number, told.lost) == (2, True), "what concerns an earlier join the owner does not look at"
    assert isinstance(told.error, errors.FencedInstanceIdError)
    assert scripted.sent() is None


def test_share_for_another_assignor_than_was_agreed_on_is_refused() -> None:
    scripted = ClassicMember()
    scripted.join()
    scripted.answer_join()
    scripted.answer_sync(protocol_name="sticky")
    assert isinstance(scripted.events[-1], Failed)


@pytest.mark.parametrize(
    ("kind", "lost", "state"),
    [
        (errors.RebalanceInProgressError, False, STABLE),
        (errors.UnknownMemberIdError, True, UNJOINED),
        (errors.IllegalGenerationError, True, UNJOINED),
        (errors.FencedInstanceIdError, True, FENCED),
    ],
)
def test_heartbeat_tells_the_owner_once_to_join_again(
    kind: type[errors.BrokerError], lost: bool, state: MemberState
) -> None:
    scripted = ClassicMember().stable()
    scripted.events.clear()
    before, last = scripted.member.membership, scripted.member.generation_now()
    scripted.answer_heartbeat(code(kind))
    (event,) = scripted.events
    assert isinstance(event, Rejoin)
    assert event.lost is lost
    assert scripted.member.last_generation() == last is not None
    assert (scripted.member.membership > before) is lost
    assert scripted.member.state is state
    assert (scripted.member.generation_now() is None) is lost
    if not lost:
        scripted.answer_heartbeat(code(kind))
        assert len(scripted.events) == 1
    if state is FENCED:
        assert isinstance(event.error, errors.FencedInstanceIdError)
        scripted.join()
        assert scripted.member.poll(scripted.now) == ([], NEVER)


def test_heartbeats_continue_until_the_owner_joins_and_not_while_it_waits() -> None:
    scripted = ClassicMember().stable()
    scripted.answer_heartbeat(code(errors.RebalanceInProgressError))
    scripted.answer_heartbeat(code(errors.RebalanceInProgressError))
    scripted.join(holding=scripted.member.membership)
    request, _ = scripted.next(JoinGroupRequest)
    scripted.now += 200.0
    assert scripted.sent() is None
    request.on_response(JoinGroupResponse(generation_id=6, member_id="me", leader="x"), scripted.now)
    assert scripted.member.state is COMPLETING


def test_a_heartbeat_over_a_lost_connection_looks_up_the_coordinator_and_continues() -> None:
    scripted = ClassicMember().stable()
    request, _ = scripted.next(HeartbeatRequest)
    request.on_error(DisconnectedError(), scripted.now)
    assert [type(error) for error in scripted.coordinator.forgotten] == [DisconnectedError]
    before = scripted.now
    scripted.answer_heartbeat()
    assert 0.05 < scripted.now - before < 0.2
    assert scripted.member.state is STABLE


def test_answers_of_an_earlier_generation_change_nothing() -> None:
    scripted = ClassicMember().stable()
    late, _ = scripted.next(HeartbeatRequest)
    scripted.join(holding=scripted.member.membership)
    scripted.answer_join(generation_id=6)
    late.on_response(HeartbeatResponse(error_code=code(errors.UnknownMemberIdError)), scripted.now)
    assert scripted.member.state is COMPLETING
    scripted.answer_sync()
    late.on_error(DisconnectedError(), scripted.now)
    assert scripted.member.state is STABLE
    assert not scripted.coordinator.forgotten


def test_silence_for_a_whole_session_looks_up_the_coordinator_again() -> None:
    scripted = ClassicMember(session_timeout_ms=10_000, request_timeout_ms=60_000).stable()
    scripted.next(HeartbeatRequest)
    assert scripted.member.poll(scripted.now).deadline < NEVER
    scripted.now += 10.0
    assert scripted.sent() is None
    assert len(scripted.coordinator.forgotten) == 1
    assert scripted.member.state is STABLE


def test_a_member_removed_during_preparation_loses_its_partitions_before_it_joins() -> None:
    scripted = ClassicMember().stable()
    held = scripted.member.membership
    scripted.answer_heartbeat(code(errors.UnknownMemberIdError))
    scripted.events.clear()
    scripted.join(holding=held)
    (event,) = scripted.events
    assert isinstance(event, Rejoin)
    assert (event.number, event.lost) == (2, True)
    assert scripted.sent() is None
    scripted.join()
    _, message = scripted.next(JoinGroupRequest)
    assert message.member_id == ""


def test_join_that_is_refused_as_unknown_loses_what_was_held() -> None:
    scripted = ClassicMember().stable()
    scripted.join(holding=scripted.member.membership)
    scripted.answer_join(error=code(errors.UnknownMemberIdError))
    assert scripted.events[-1] == Rejoin(2, str(errors.UnknownMemberIdError(api="JoinGroup")), lost=True)
    assert scripted.member.state is UNJOINED


@pytest.mark.parametrize("instance_id", [None, "static"])
def test_slow_application_makes_the_member_leave_unless_it_is_static(instance_id: str | None) -> None:
    scripted = ClassicMember(max_poll_interval_ms=10_000, session_timeout_ms=45_000, group_instance_id=instance_id)
    scripted.interval.polled(scripted.now)
    scripted.stable()
    scripted.answer_heartbeat()
    scripted.now = 110.0
    sent = scripted.sent()
    event = scripted.events[-1]
    assert isinstance(event, Rejoin)
    assert event.lost
    assert isinstance(event.error, MaxPollIntervalExceededError)
    if instance_id is not None:
        assert sent is None
        assert scripted.member.state is UNJOINED
        return
    assert sent is not None
    assert sent.request_type is LeaveGroupRequest
    message: Any = sent.build(5)
    assert [(one.member_id, one.reason) for one in message.members] == [
        ("me", "the application did not ask for records for too long")
    ]
    assert scripted.member.state is LEAVING
    scripted.join()
    assert scripted.sent() is None
    sent.on_response(LeaveGroupResponse(), scripted.now)
    scripted.interval.polled(scripted.now)
    _, message = scripted.next(JoinGroupRequest)
    assert message.member_id == ""


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_leaving_names_the_member_in_the_form_of_the_version(version: int) -> None:
    scripted = ClassicMember().stable()
    done: Future[None] = Future()
    (request,) = scripted.member.leave(done, tell=True, reason="x" * 300)
    assert request.node == 1_001
    message: Any = request.build(version)
    again = LeaveGroupRequest.decode(message.encode(version), version)
    assert ([one.member_id for one in again.members] or [again.member_id]) == ["me"]
    assert not done.done()
    request.on_response(LeaveGroupResponse(members=[LeaveGroupResponse.MemberResponse(error_code=25)]), scripted.now)
    assert done.done()
    assert scripted.member.state is UNJOINED


def test_leaving_while_joining_goes_past_the_connection_that_waits() -> None:
    scripted = ClassicMember()
    scripted.join()
    scripted.answer_join(error=79)
    late, _ = scripted.next(JoinGroupRequest)
    done: Future[None] = Future()
    (request,) = scripted.member.leave(done, tell=True, reason="closing")
    assert request.node == 1
    late.on_response(JoinGroupResponse(generation_id=5, member_id="me"), scripted.now)
    assert scripted.member.state is LEAVING
    request.on_error(DisconnectedError(), scripted.now)
    assert done.done()


@pytest.mark.parametrize("failed", ["to divide", "to join"])
def test_leaving_after_joining_failed_tells_the_group_that_waits(failed: str) -> None:
    scripted = ClassicMember()
    scripted.join()
    if failed == "to divide":
        scripted.answer_join(leader="me")
        lead = scripted.events[-1]
        assert isinstance(lead, Lead)
        scripted.member.give_up(lead.generation)
    else:
        scripted.answer_join(error=79)
        scripted.answer_join(error=code(errors.GroupMaxSizeReachedError))
    assert scripted.member.state is UNJOINED
    done: Future[None] = Future()
    (request,) = scripted.member.leave(done, tell=True, reason="closing")
    message: Any = request.build(5)
    assert [one.member_id for one in message.members] == ["me"]
    request.on_response(LeaveGroupResponse(), scripted.now)
    assert done.done()


@pytest.mark.parametrize("how", ["static", "unknown coordinator", "never joined", "fenced"])
def test_leaving_without_a_request_ends_at_once(how: str) -> None:
    scripted = ClassicMember()
    if how != "never joined":
        scripted.stable()
    if how == "unknown coordinator":
        scripted.coordinator.node = None
    if how == "fenced":
        scripted.answer_heartbeat(code(errors.FencedInstanceIdError))
    done: Future[None] = Future()
    assert scripted.member.leave(done, tell=how != "static", reason="") == []
    assert done.done()
    assert scripted.member.state is UNJOINED
    scripted.join()
    scripted.coordinator.node = 1_001
    scripted.answer_join()


def test_final_error_of_the_lookup_fails_the_join() -> None:
    scripted = ClassicMember()
    scripted.coordinator.node = None
    scripted.join()
    scripted.sent()
    scripted.coordinator.fatal_error = errors.GroupAuthorizationError()
    assert scripted.sent() is None
    assert isinstance(scripted.events[-1], Failed)
    assert scripted.member.state is UNJOINED


def test_peer_that_is_no_broker_is_asked_to_the_owner() -> None:
    scripted = ClassicMember()
    scripted.join()
    request, _ = scripted.next(JoinGroupRequest)
    request.on_error(NotKafkaError("HTTP"), scripted.now)
    event = scripted.events[-1]
    assert isinstance(event, Failed)
    assert isinstance(event.error, NotKafkaError)


def test_static_members_need_a_version_that_knows_them() -> None:
    scripted = ClassicMember(group_instance_id="a")
    scripted.join()
    request, message = scripted.next(JoinGroupRequest)
    assert request.minimum_version == 5
    assert message.group_instance_id == "a"


def test_refused_offsets_say_as_much_as_a_heartbeat() -> None:
    scripted = ClassicMember().stable()
    generation = scripted.member.generation_now()
    assert generation is not None
    scripted.events.clear()
    scripted.member.on_refused(generation._replace(id=4), errors.UnknownMemberIdError(), scripted.now)
    scripted.member.on_refused(generation, errors.OffsetMetadataTooLargeError(), scripted.now)
    assert not scripted.events
    scripted.member.on_refused(generation, errors.RebalanceInProgressError(), scripted.now)
    scripted.member.on_refused(generation, errors.FencedInstanceIdError(), scripted.now)
    assert [event.lost for event in scripted.events if isinstance(event, Rejoin)] == [False, True]
    assert scripted.member.state is FENCED
