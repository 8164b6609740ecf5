"""Groups over sockets: sessions by the broker's clock, faults, a failing disk, and the end of the broker."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from kclient.protocol.frames import decode_response_header
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest
from refbroker.broker import Broker
from refbroker.coordinators.internal_topic import OFFSETS_TOPIC
from refbroker.testing import RefBroker, SimulatedDisk
from tests.support.waiting import wait_until
from tests.support.wire import Wire

NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_MEMBER, REBALANCING, MEMBER_ID_REQUIRED = 15, 16, 25, 27, 79
SESSION_MS = 10_000
JOIN_VERSION = 9


def _join_request(member: str, group: str = "g") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        member_id=member,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range")],
    )


def _join(wire: Wire, group: str = "g") -> Any:
    """Become a member; nobody else is in the group."""
    wire.ask(FindCoordinatorRequest(coordinator_keys=[group]), 6)
    told = wire.ask(_join_request("", group), JOIN_VERSION)
    assert told.error_code == MEMBER_ID_REQUIRED
    answer = wire.ask(_join_request(told.member_id, group), JOIN_VERSION)
    assert answer.error_code == 0
    one = SyncGroupRequest.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"all")
    request = SyncGroupRequest(
        group_id=group,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[one],
    )
    assert wire.ask(request, 5).assignment == b"all"
    return answer


def _heartbeat(wire: Wire, member: Any, group: str = "g") -> int:
    request = HeartbeatRequest(group_id=group, member_id=member.member_id, generation_id=member.generation_id)
    return int(wire.ask(request, 4).error_code)


def test_sessions_go_by_the_clock_of_the_broker(kafka: RefBroker) -> None:
    kafka.clock.hold()
    with Wire(kafka.bootstrap_servers) as wire:
        member = _join(wire)
        kafka.clock.step((SESSION_MS - 1) / 1000)
        assert _heartbeat(wire, member) == 0
        kafka.clock.step((SESSION_MS - 1) / 1000)
        assert _heartbeat(wire, member) == 0
        kafka.clock.step(SESSION_MS / 1000)
        assert _heartbeat(wire, member) == UNKNOWN_MEMBER


def test_members_continue_after_a_kill(kafka: RefBroker) -> None:
    with Wire(kafka.bootstrap_servers) as wire:
        member = _join(wire)
    kafka.kill()
    kafka.restart()
    with Wire(kafka.bootstrap_servers) as wire:
        assert _heartbeat(wire, member) == 0


def test_a_member_that_waits_does_not_hold_up_the_end_of_the_broker(kafka: RefBroker) -> None:
    with Wire(kafka.bootstrap_servers) as wire, Wire(kafka.bootstrap_servers) as other:
        member = _join(wire)
        told = other.ask(_join_request(""), JOIN_VERSION)
        other.send(_join_request(told.member_id), JOIN_VERSION)
        wait_until(lambda: _heartbeat(wire, member) == REBALANCING)
        kafka.restart()
        assert other.is_closed()
    with Wire(kafka.bootstrap_servers) as wire:
        assert _heartbeat(wire, member) == 0, "the rebalance has not got to its end"


def test_an_election_has_members_look_for_their_coordinator(kafka: RefBroker) -> None:
    with Wire(kafka.bootstrap_servers) as wire, Wire(kafka.bootstrap_servers) as other:
        member = _join(wire)
        told = other.ask(_join_request(""), JOIN_VERSION)
        other.send(_join_request(told.member_id), JOIN_VERSION)
        wait_until(lambda: _heartbeat(wire, member) == REBALANCING)
        kafka.elect(OFFSETS_TOPIC, kafka.call(lambda broker: broker.parts.groups.topic.partition_for("g")))
        _, body = decode_response_header(JoinGroupRequest.api_key, JOIN_VERSION, other.read_frame())
        assert JoinGroupResponse.decode(body, JOIN_VERSION).error_code == NOT_COORDINATOR
        wait_until(lambda: _heartbeat(wire, member) == 0)


def test_a_disk_that_fails_takes_its_groups_and_no_others(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with (
        RefBroker(disk=SimulatedDisk(), log_dirs=f"{first},{second}") as kafka,
        Wire(kafka.bootstrap_servers) as wire,
    ):
        wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)

        def homes(broker: Broker) -> dict[Path, str]:
            found = {}
            for name in (f"g{number}" for number in range(100)):
                directory = broker.parts.logs.directory_of(OFFSETS_TOPIC, broker.parts.groups.topic.partition_for(name))
                assert directory is not None
                found[directory.path] = name
            return found

        group_of = kafka.call(homes)
        member, lost = _join(wire, group_of[first]), _join(wire, group_of[second])
        kafka.disk.fail(path_prefix=second, operation="write", error=errno.EIO)
        leave = LeaveGroupRequest(
            group_id=group_of[second], members=[LeaveGroupRequest.MemberIdentity(member_id=lost.member_id)]
        )
        assert wire.ask(leave, 5).error_code == NOT_COORDINATOR
        sought = FindCoordinatorRequest(coordinator_keys=[group_of[second], group_of[first]])
        wait_until(lambda: wire.ask(sought, 6).coordinators[0].error_code == NOT_AVAILABLE)
        assert wire.ask(sought, 6).coordinators[1].error_code == 0
        assert _heartbeat(wire, lost, group_of[second]) == NOT_COORDINATOR
        assert _heartbeat(wire, member, group_of[first]) == 0
