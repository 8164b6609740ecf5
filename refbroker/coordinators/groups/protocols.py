"""The protocol of a group, which selects the handler of a member's request.

A group has one id and is either classic or a consumer group, but both may receive requests of either protocol. Without
members, a group becomes what the request requires. With members, consumer groups handle requests of the classic
protocol too, and a heartbeat of the consumer protocol converts a classic group to a consumer group.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping

from kclient.errors import GroupIdNotFoundError, KafkaError
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupRequest
from refbroker.coordinators.groups.classic.group import ClassicGroup, tombstone
from refbroker.coordinators.groups.classic.machine import ClassicGroups
from refbroker.coordinators.groups.classic.member import AnswerJoin, AnswerSync
from refbroker.coordinators.groups.classic.requests import Caller, Join
from refbroker.coordinators.groups.consumer.classic_members import ClassicMembers
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.heartbeats import Heartbeats
from refbroker.coordinators.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from refbroker.coordinators.groups.consumer.migration import upgrade
from refbroker.coordinators.groups.consumer.records import group_tombstones
from refbroker.coordinators.groups.consumer.update import Environment
from refbroker.coordinators.groups.coordinator_timer import Result
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.runtime import CoordinatorResult

logger = logging.getLogger(__name__)


class Protocols:
    """Handles the requests of members in the groups of a partition.

    Parameters:
        groups: the classic groups, by id.
        classic: handles requests for them.
        environment: the parts that requests for consumer groups need.
    """

    def __init__(
        self, groups: MutableMapping[str, ClassicGroup], classic: ClassicGroups, environment: Environment
    ) -> None:
        self._groups = groups
        self._consumers = environment.groups
        self._classic = classic
        self._environment = environment
        self._heartbeats = Heartbeats(environment)
        self._classic_members = ClassicMembers(environment, classic)

    # The consumer protocol

    def on_consumer_group_heartbeat(
        self, caller: Caller, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Add a client to a consumer group, keep it there or remove it; see `Heartbeats`.

        Raises:
            GroupIdNotFoundError: the consumer group does not exist and cannot be created.
            KafkaError: raised by `Heartbeats`.
        """
        group_id, epoch = request.group_id, request.member_epoch
        classic, group = self._groups.get(group_id), self._consumers.get(group_id)
        if classic is not None:
            if epoch == JOIN_EPOCH:
                return self._take_over(classic, caller, request)
            raise GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        if epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            if group is None:
                raise GroupIdNotFoundError(f"Group {group_id} not found.")
            return self._heartbeats.on_leave(group, request)
        if group is None:
            if epoch != JOIN_EPOCH:
                raise GroupIdNotFoundError(f"Consumer group {group_id} not found.")
            group = ConsumerGroup(group_id)
        return self._heartbeats.on_heartbeat(group, caller, request, [])

    def _take_over(
        self, classic: ClassicGroup, caller: Caller, request: ConsumerGroupHeartbeatRequest
    ) -> CoordinatorResult[ConsumerGroupHeartbeatResponse]:
        """Convert a classic group when its first member with the consumer protocol joins."""
        records: list[CoordinatorRecord] = []
        if classic.is_empty:
            group = ConsumerGroup(classic.group_id)
            records.append(tombstone(classic.group_id))
        else:
            settings = self._environment.settings(classic.group_id)
            group = upgrade(classic, self._environment.topics, settings, records)
        result = self._heartbeats.on_heartbeat(group, caller, request, records)

        def written(error: KafkaError | None) -> None:
            if error is None:
                self._classic.release(classic)
                for member in group.members.values():
                    self._environment.sessions.keep_alive(classic.group_id, member)

        return CoordinatorResult(result.records, result.response, written)

    # The classic protocol

    def on_join_group(self, caller: Caller, request: JoinGroupRequest, answer: AnswerJoin) -> Result:
        """Add a client to a group; the response may be sent much later.

        Raises:
            KafkaError: the client cannot join a consumer group.
        """
        group = self._consumers.get(request.group_id)
        if group is None:
            return self._classic.on_join_group(caller, request, answer)
        if not group.is_empty:
            return self._classic_members.on_join_group(group, Join.of(caller, request, answer))
        result = self._classic.on_join_group(caller, request, answer)
        if not result.records:
            return result

        def written(error: KafkaError | None) -> None:
            if error is None:
                self._consumers.pop(group.group_id, None)
                logger.info("[Group %s] Converted the empty consumer group to a classic group.", group.group_id)
            if result.written is not None:
                result.written(error)

        return CoordinatorResult([*group_tombstones(group), *result.records], None, written, replayed=False)

    def on_sync_group(self, request: SyncGroupRequest, answer: AnswerSync) -> Result:
        """Return a member's assignment; the response may have to wait for the leader's assignment.

        Raises:
            KafkaError: raised by a consumer group.
        """
        group = self._consumers.get(request.group_id)
        if group is None or group.is_empty:
            return self._classic.on_sync_group(request, answer)
        return self._classic_members.on_sync_group(group, request, answer)

    def on_heartbeat(self, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Keep a member in its group, and report that it has to rejoin.

        Raises:
            KafkaError: it is not a member, or has another generation.
        """
        group = self._consumers.get(request.group_id)
        if group is None:
            return self._classic.on_heartbeat(request)
        return self._classic_members.on_heartbeat(group, request)

    def on_leave_group(self, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove members from their group.

        Raises:
            UnknownMemberIdError: the group does not exist.
        """
        group = self._consumers.get(request.group_id)
        if group is None:
            return self._classic.on_leave_group(request)
        return self._classic_members.on_leave_group(group, request)
