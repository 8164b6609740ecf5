"""ConsumerGroupHeartbeat: how clients join, stay in and leave consumer groups.

The epoch of the member says what it wants: 0 joins, -1 leaves, -2 leaves temporarily (static members), and a positive
number is its current epoch. The response has the assignment when the member joins, when the assignment has changed, and
after a full heartbeat, which a member sends after an error. If a heartbeat has the previous epoch and partitions that
the member may own, the last response was lost and is sent again.

The place of a static member that has left temporarily (-2) goes to the next one with its instance id, under a new
member id. Until it has left, the next one gets UNRELEASED_INSTANCE_ID.
"""

from __future__ import annotations

import logging

from kclient.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    InvalidRequestError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from refbroker.coordinators.groups.classic.requests import Caller
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    PartitionEpochs,
)
from refbroker.coordinators.groups.consumer.reconciliation import Owned
from refbroker.coordinators.groups.consumer.records import (
    current_record,
    member_record,
    member_tombstones,
    target_record,
)
from refbroker.coordinators.groups.consumer.update import Environment, MemberUpdate
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.runtime import CoordinatorResult

logger = logging.getLogger(__name__)

Response = ConsumerGroupHeartbeatResponse
Result = CoordinatorResult[Response]

FIRST_WITH_MEMBER_IDS = 1
NOT_SAID = -1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Check that a request is valid.

    Raises:
        InvalidRequestError, UnsupportedAssignorError: it is not.
    """
    epoch = request.member_epoch
    if not request.member_id and (version >= FIRST_WITH_MEMBER_IDS or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH):
        raise InvalidRequestError("MemberId can't be empty.")
    if not request.group_id:
        raise InvalidRequestError("GroupId can't be empty.")
    if request.instance_id == "":
        raise InvalidRequestError("InstanceId can't be empty.")
    if request.rack_id == "":
        raise InvalidRequestError("RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == NOT_SAID:
            raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise InvalidRequestError(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise InvalidRequestError("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignorError(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )


class Heartbeats:
    """Handles the heartbeats of the consumer protocol in the groups of a partition.

    Parameters:
        environment: the shared parts.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def on_heartbeat(
        self,
        group: ConsumerGroup,
        caller: Caller,
        request: ConsumerGroupHeartbeatRequest,
        records: list[CoordinatorRecord],
    ) -> Result:
        """Add a member, or keep it in its group.

        Parameters:
            group: the group, which may not be in the log yet.
            records: the records to write before those of the heartbeat.

        Raises:
            GroupMaxSizeReachedError, UnknownMemberIdError, FencedMemberEpochError, UnreleasedInstanceIdError,
            FencedInstanceIdError, InvalidRegularExpressionError: it cannot join, or has to rejoin.
        """
        environment = self._environment
        settings = environment.settings(group.group_id)
        if len(group.members) >= settings.max_size and request.member_id not in group.members:
            raise GroupMaxSizeReachedError(
                f"The consumer group has reached its maximum capacity of {settings.max_size} members."
            )
        member_id = request.member_id or environment.new_uuid()
        owned = _owned(request)
        member = self._find(group, member_id, request, owned, records)
        updated = _described(member, caller, request)
        update = MemberUpdate(environment, group, member, updated, records)
        update.describe_member(caller.may_see)
        epoch, target = update.assign()
        updated = update.reconcile(epoch, target, owned)
        environment.sessions.keep_alive(group.group_id, updated)
        response = Response(
            member_id=updated.member_id,
            member_epoch=updated.epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        if request.member_epoch == JOIN_EPOCH or _is_full(request) or member.assigned != updated.assigned:
            response.assignment = _assignment(updated.assigned)
        return CoordinatorResult(records, response)

    def on_leave(self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Result:
        """Remove a member, permanently or temporarily.

        Raises:
            UnknownMemberIdError, FencedInstanceIdError: it is not a member, or was replaced.
        """
        member_id, instance_id = request.member_id, request.instance_id
        member = group.member(member_id) if instance_id is None else known_static_member(group, member_id, instance_id)
        logger.info("[Group %s] Member %s left the consumer group.", group.group_id, member_id)
        if instance_id is None or request.member_epoch == LEAVE_EPOCH:
            response = Response(member_id=member_id, member_epoch=request.member_epoch)
            return self._environment.sessions.remove(group, [member], response)
        away = member.with_(
            epoch=STATIC_LEAVE_EPOCH,
            # A member that returns receives its partitions from the first epoch on.
            assigned={topic: dict.fromkeys(partitions, 0) for topic, partitions in member.assigned.items()},
            revoking={},
        )
        response = Response(member_id=member.member_id, member_epoch=STATIC_LEAVE_EPOCH)
        return CoordinatorResult([current_record(group.group_id, away)], response)

    def _find(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        owned: Owned | None,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        """Return the member of a request; if it replaces another one, add the records for that."""
        joins = request.member_epoch == JOIN_EPOCH
        if request.instance_id is None:
            member = group.members.get(member_id) if joins else group.member(member_id)
            member = member or ConsumerMember(member_id)
            check_epoch(member, request.member_epoch, owned)
            return member
        if not joins:
            member = known_static_member(group, member_id, request.instance_id)
            check_epoch(member, request.member_epoch, owned)
            return member
        former = group.static_member(request.instance_id)
        if former is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if former.classic is None and former.epoch != STATIC_LEAVE_EPOCH:
            raise UnreleasedInstanceIdError(
                f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
                f"instance id is owned by {former.member_id} member."
            )
        return replace_member(group, former, member_id, records)


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the static member with an instance id, which must have this member id.

    Raises:
        UnknownMemberIdError: it does not exist.
        FencedInstanceIdError: it has another member id.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise FencedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        )
    return member


def replace_member(
    group: ConsumerGroup, former: ConsumerMember, member_id: str, records: list[CoordinatorRecord]
) -> ConsumerMember:
    """Replace a static member by its next incarnation, and add the records for that."""
    member = former.with_(member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    records += member_tombstones(group.group_id, former.member_id)
    records.append(member_record(group.group_id, member))
    records.append(target_record(group.group_id, member_id, group.targets.get(former.member_id, {})))
    records.append(current_record(group.group_id, member))
    return member


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Check that a heartbeat has the member's epoch, or the previous one if its response may be lost.

    Raises:
        FencedMemberEpochError: it has another epoch.
    """
    if epoch in (JOIN_EPOCH, member.epoch):
        return
    if epoch > member.epoch:
        raise FencedMemberEpochError(
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )
    is_subset = owned is not None and all(
        numbers <= member.assigned.get(topic, {}).keys() for topic, numbers in owned.items()
    )
    if epoch != member.previous_epoch or not is_subset:
        raise FencedMemberEpochError(
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the group "
            f"coordinator ({member.epoch}). The member must abandon all its partitions and rejoin."
        )


def _described(member: ConsumerMember, caller: Caller, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """Return the member with the data of the request; missing fields are unchanged."""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member.with_(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SAID else timeout_ms,
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        topics=member.topics if names is None else frozenset(names),
        pattern=member.pattern if pattern is None else pattern,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    if request.topic_partitions is None:
        return None
    return {one.topic_id: frozenset(one.partitions) for one in request.topic_partitions}


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    return (
        request.rebalance_timeout_ms != NOT_SAID
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _assignment(assigned: PartitionEpochs) -> ConsumerGroupHeartbeatResponse.Assignment:
    return ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponse.TopicPartitions(topic_id=topic, partitions=sorted(partitions))
            for topic, partitions in assigned.items()
        ]
    )
