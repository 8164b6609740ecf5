"""Members with the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

The coordinator assigns their partitions too, because their metadata contain subscription and owned partitions. A
JoinGroup is like a full heartbeat of the consumer protocol: the generation is the epoch of the member, there is no
leader, and the response is immediate. SyncGroup returns the assignment at that epoch. Heartbeat makes the member rejoin
if its target has changed, if it has to release partitions, or if partitions that it waits for are free.
"""

from __future__ import annotations

from kclient.errors import (
    FencedInstanceIdError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    KafkaError,
    MemberIdRequiredError,
    ProtocolError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription, decode_any_version
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from refbroker.coordinators.groups.classic.group import CONSUMER
from refbroker.coordinators.groups.classic.machine import ClassicGroups
from refbroker.coordinators.groups.classic.member import AnswerSync, log_leave
from refbroker.coordinators.groups.classic.requests import (
    FIRST_WITH_MEMBER_ID_REQUIRED,
    UNKNOWN_MEMBER,
    Join,
)
from refbroker.coordinators.groups.consumer.group import ConsumerGroup, partitions_of
from refbroker.coordinators.groups.consumer.heartbeats import known_static_member, replace_member
from refbroker.coordinators.groups.consumer.member import ClassicMetadata, ConsumerMember
from refbroker.coordinators.groups.consumer.migration import (
    Downgrade,
    classic_assignment,
    first_protocol,
    may_downgrade,
)
from refbroker.coordinators.groups.consumer.reconciliation import Owned
from refbroker.coordinators.groups.consumer.settings import DISABLED
from refbroker.coordinators.groups.consumer.states import MemberState
from refbroker.coordinators.groups.consumer.update import Environment, MemberUpdate
from refbroker.coordinators.groups.coordinator_timer import NOTHING, Result
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.runtime import CoordinatorResult
from refbroker.runtime.error_codes import code_of

MemberResponse = LeaveGroupResponse.MemberResponse


class ClassicMembers:
    """Handles the requests of classic members in the consumer groups of a partition.

    Parameters:
        environment: the shared parts.
        classic: takes over groups that become classic ones.
    """

    def __init__(self, environment: Environment, classic: ClassicGroups) -> None:
        self._environment = environment
        self._classic = classic

    # JoinGroup

    def on_join_group(self, group: ConsumerGroup, join: Join) -> Result:
        """Make a client a member, or advance a member by one step.

        Raises:
            InconsistentGroupProtocolError, GroupMaxSizeReachedError, UnknownMemberIdError, FencedInstanceIdError: it
                cannot become a member.
        """
        request, records = join.request, list[CoordinatorRecord]()
        self._check_join(group, join)
        member_id = request.member_id or self._environment.new_uuid()
        is_dynamic = request.group_instance_id is None
        if is_dynamic and not request.member_id and join.caller.version >= FIRST_WITH_MEMBER_ID_REQUIRED:
            return join.refuse(MemberIdRequiredError, member_id)
        former = group.static_member(request.group_instance_id)
        member = self._find(group, join, member_id, former, records)
        try:
            subscription = decode_any_version(ConsumerProtocolSubscription, join.protocols[0].metadata)
        except ProtocolError as error:
            raise InconsistentGroupProtocolError(f"Member {member_id}'s subscription cannot be read.") from error
        updated = member.with_(
            instance_id=member.instance_id if is_dynamic else request.group_instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout_ms=join.rebalance_timeout_ms,
            topics=frozenset(subscription.topics),
            pattern="",
            client_id=join.caller.client_id,
            client_host=join.caller.client_host,
            classic=ClassicMetadata(request.session_timeout_ms, join.protocols),
        )
        update = MemberUpdate(self._environment, group, member, updated, records)
        update.describe_member(join.caller.may_see)
        owned = self._owned(subscription)
        if former is not None and former.classic is None:
            left = group.members_with(updated)
            if may_downgrade(group, left, self._environment.settings(group.group_id)):
                return self._downgrade(group, former, update, updated, owned, records, join)
        epoch, target = update.assign()
        updated = update.reconcile(epoch, target, owned)

        def written(error: KafkaError | None) -> None:
            if error is None:
                self._environment.sessions.has_joined(group.group_id, updated)
            _answer_join(join, updated, error)

        return CoordinatorResult(records, None, written)

    def _check_join(self, group: ConsumerGroup, join: Join) -> None:
        request, settings = join.request, self._environment.settings(group.group_id)
        if settings.migration_policy == DISABLED:
            raise InconsistentGroupProtocolError(
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
                "migration is disabled."
            )
        if len(group.members) >= settings.max_size and request.member_id not in group.members:
            raise GroupMaxSizeReachedError(
                f"The consumer group has reached its maximum capacity of {settings.max_size} members."
            )
        classic = [member.classic for member in group.members.values() if member.classic is not None]
        supported = any(
            all(protocol.name in {one.name for one in metadata.protocols} for metadata in classic)
            for protocol in join.protocols
        )
        if request.protocol_type != CONSUMER or not supported:
            raise InconsistentGroupProtocolError(f"Member {request.member_id}'s protocols are not supported.")

    def _find(
        self,
        group: ConsumerGroup,
        join: Join,
        member_id: str,
        former: ConsumerMember | None,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        request = join.request
        if request.group_instance_id is None or (former is None and not request.member_id):
            return group.members.get(member_id) or ConsumerMember(member_id)
        if request.member_id or former is None:
            return known_static_member(group, member_id, request.group_instance_id)
        return replace_member(group, former, member_id, records)

    def _owned(self, subscription: ConsumerProtocolSubscription) -> Owned:
        named = ((self._environment.topics.named(one.topic), one.partitions) for one in subscription.owned_partitions)
        return {topic.topic_id: frozenset(partitions) for topic, partitions in named if topic is not None}

    def _downgrade(
        self,
        group: ConsumerGroup,
        former: ConsumerMember,
        update: MemberUpdate,
        updated: ConsumerMember,
        owned: Owned,
        records: list[CoordinatorRecord],
        join: Join,
    ) -> Result:
        """Convert the last member of the consumer protocol, which returns with the classic one."""
        environment = self._environment
        target = group.targets.get(former.member_id, {})
        reason = None
        if group.assignment_epoch < update.epoch:
            reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        else:
            updated = update.reconcile(group.assignment_epoch, target, owned)
        downgrade = Downgrade(
            group,
            group.members_with(updated),
            environment.topics,
            environment.timer.now,
            stored=[updated.member_id if each == former.member_id else each for each in group.members],
            targets={**group.targets, updated.member_id: target},
        )
        return downgrade.result(
            None,
            environment.groups,
            self._classic,
            rebalance_because=reason,
            before=records,
            then=lambda error: _answer_join(join, updated, error),
        )

    # SyncGroup

    def on_sync_group(self, group: ConsumerGroup, request: SyncGroupRequest, answer: AnswerSync) -> Result:
        """Return a member's assignment.

        Raises:
            UnknownMemberIdError, FencedInstanceIdError, IllegalGenerationError, InconsistentGroupProtocolError,
            RebalanceInProgressError: it has no assignment at this epoch.
        """
        member = _member_of(group, request.member_id, request.group_instance_id, request.generation_id)
        name = first_protocol(member).name
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
            raise InconsistentGroupProtocolError(
                f"Member {member.member_id} joined with the protocol type {CONSUMER} and the protocol {name}."
            )
        if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._environment.sessions.await_join(group.group_id, member)
            raise RebalanceInProgressError(
                f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin "
                "to catch up."
            )
        self._environment.sessions.has_synced(group.group_id, member)
        assignment = classic_assignment(member.assigned, first_protocol(member).metadata, self._environment.topics)
        answer(
            SyncGroupResponse(
                protocol_type=request.protocol_type, protocol_name=request.protocol_name, assignment=assignment
            )
        )
        return NOTHING

    # Heartbeat

    def on_heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> CoordinatorResult[HeartbeatResponse]:
        """Keep a member in its group, and report that it has to join again.

        Raises:
            UnknownMemberIdError, FencedInstanceIdError, IllegalGenerationError: it is not a member, or has another
                epoch.
        """
        member = _member_of(group, request.member_id, request.group_instance_id, request.generation_id)
        self._environment.sessions.keep_alive(group.group_id, member)
        if member.epoch >= group.assignment_epoch and not _has_to_change(group, member):
            return CoordinatorResult((), HeartbeatResponse())
        self._environment.sessions.await_join(group.group_id, member)
        return CoordinatorResult((), HeartbeatResponse(error_code=RebalanceInProgressError.code))

    # LeaveGroup

    def on_leave_group(self, group: ConsumerGroup, request: LeaveGroupRequest) -> CoordinatorResult[LeaveGroupResponse]:
        """Remove members of either protocol from the group."""
        left: dict[str, ConsumerMember] = {}
        responses = []
        for identity in request.members:
            response = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
            responses.append(response)
            try:
                member = _leaving(group, identity.member_id, identity.group_instance_id)
            except (UnknownMemberIdError, FencedInstanceIdError) as error:
                response.error_code = code_of(error)
                continue
            log_leave(group.group_id, member.member_id, identity)
            left[member.member_id] = member
        return self._environment.sessions.remove(group, list(left.values()), LeaveGroupResponse(members=responses))


def _leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    if instance_id is None:
        return group.member(member_id)
    if member_id == UNKNOWN_MEMBER:
        # An administrator removes static members by instance id.
        known = group.static_member(instance_id)
        member_id = UNKNOWN_MEMBER if known is None else known.member_id
    return known_static_member(group, member_id, instance_id)


def _member_of(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
    member = group.member(member_id) if instance_id is None else known_static_member(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberIdError(f"Member {member_id} does not use the classic protocol.")
    if generation != member.epoch:
        raise IllegalGenerationError(
            f"The request generation id {generation} is not equal to the member epoch {member.epoch} of member "
            f"{member_id}."
        )
    return member


def _has_to_change(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether a member has to release partitions, or can receive some that it waits for."""
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return not any(
            partition not in member.assigned.get(topic, {}) and not group.is_free(topic, partition)
            for topic, partition in partitions_of(group.targets.get(member.member_id, {}))
        )
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _answer_join(join: Join, member: ConsumerMember, error: KafkaError | None) -> None:
    if error is not None:
        # The caller handles failed writes.
        return
    join.answer(
        JoinGroupResponse(
            member_id=member.member_id,
            generation_id=member.epoch,
            protocol_type=CONSUMER,
            protocol_name=first_protocol(member).name,
        )
    )
