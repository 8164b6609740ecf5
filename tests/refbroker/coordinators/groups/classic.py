"""The classic groups of one partition without a broker: time that a test moves, and records that it can refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from kclient.errors import KafkaError
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.machine import ClassicGroups
from refbroker.coordinators.groups.classic.rebalancing import GroupSettings
from refbroker.coordinators.groups.classic.requests import Caller
from refbroker.coordinators.groups.coordinator_timer import Result
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.metrics.counters import GroupStats

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000

Answers = list[Any]


class Groups:
    """The groups of a partition, and the time.

    Attributes:
        written: the records, in order.
        failure: what every write fails with.
        timers: name -> when it is due, and what is done then.
    """

    def __init__(self, **settings: int) -> None:
        self.now_ms = 1_700_000_000_000
        self.timers: dict[str, tuple[int, Callable[[], Result]]] = {}
        self.written: list[CoordinatorRecord] = []
        self.failure: KafkaError | None = None
        self.groups: dict[str, ClassicGroup] = {}
        numbers = itertools.count(1)
        self.classic = ClassicGroups(
            self.groups, self, GroupSettings(**settings), lambda: str(next(numbers)), GroupStats()
        )

    @property
    def group(self) -> ClassicGroup:
        return self.groups[GROUP]

    # CoordinatorTimer

    def now(self) -> int:
        return self.now_ms

    def schedule(
        self, name: str, delay_ms: int, operation: Callable[[], Result], retry_after_ms: int | None = None
    ) -> None:
        self.timers[name] = self.now_ms + delay_ms, operation

    def cancel(self, name: str) -> None:
        self.timers.pop(name, None)

    def pass_time(self, ms: int) -> None:
        """Let so many milliseconds pass, and do what becomes due."""
        end = self.now_ms + ms
        while due := [(at, name) for name, (at, _) in self.timers.items() if at <= end]:
            self.now_ms, name = min(due)
            self.carry_out(self.timers.pop(name)[1])
        self.now_ms = end

    def carry_out(self, operation: Callable[[], Any]) -> Any:
        """What the runtime does."""
        result = operation()
        if result.records and self.failure is None:
            self.written += result.records
        if result.written is not None:
            result.written(self.failure if result.records else None)
        return result.response

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Iterable[str] = ("range",),
        metadata: bytes = b"",
        version: int = 9,
        client: str = "c",
        **fields: Any,
    ) -> Answers:
        """A list that the answer is added to."""
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=fields.pop("session_timeout_ms", SESSION_MS),
            rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", REBALANCE_MS),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
            **fields,
        )
        answers: list[JoinGroupResponse] = []
        self.carry_out(
            lambda: self.classic.on_join_group(Caller(version, client, "/127.0.0.1"), request, answers.append)
        )
        return answers

    def join_new(self, **fields: Any) -> tuple[str, Answers]:
        """A dynamic member's two requests: its id, and a list that the second answer is added to."""
        [told] = self.join(**fields)
        assert told.error_code == 79
        return told.member_id, self.join(told.member_id, **fields)

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **fields: Any
    ) -> Answers:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=name, assignment=data)
                for name, data in (assignments or {}).items()
            ],
            **fields,
        )
        answers: list[SyncGroupResponse] = []
        self.carry_out(lambda: self.classic.on_sync_group(request, answers.append))
        return answers

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> int:
        """The error's number."""
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        try:
            return int(self.carry_out(lambda: self.classic.on_heartbeat(request)).error_code)
        except KafkaError as error:
            return error.code or 0

    def leave(self, *members: tuple[str, str | None]) -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[LeaveGroupRequest.MemberIdentity(member_id=one, group_instance_id=two) for one, two in members],
        )
        response = self.carry_out(lambda: self.classic.on_leave_group(request))
        assert isinstance(response, LeaveGroupResponse)
        return response

    # Whole rebalances

    def settle(self) -> int:
        """Have the leader assign each member its own name, all ask for it, and give the generation."""
        group = self.group
        leader = group.leader
        assert leader is not None
        for name in (*(name for name in group.members if name != leader), leader):
            self.sync(name, group.generation, {each: each.encode() for each in group.members} if name == leader else {})
        return group.generation


def stable(count: int = 2, **settings: int) -> tuple[Groups, list[str]]:
    """A stable group of dynamic members, the first of which leads."""
    groups = Groups(initial_rebalance_delay_ms=DELAY_MS, **settings)
    members = [groups.join_new()[0] for _ in range(count)]
    groups.pass_time(2 * DELAY_MS)
    groups.settle()
    return groups, members
