"""AlterPartition: a leader proposes an in-sync set of a partition, and the controller accepts or refuses it (KIP-497).

A proposal is refused if the leader's view is old (its epochs are lower), if the controller's is (they are higher), if
it is no possible in-sync set, or if a replica in it is fenced, shuts down, or has restarted since the leader saw it
caught up: the proposal has its broker epoch (KIP-841, KIP-903). A set with which a reassignment is complete may end the
leadership of the broker that proposed it.

Source: `alterPartition` of Kafka's `ReplicationControlManager`. Elsewhere: when a leader proposes what
(`refbroker.replication`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kclient.errors import (
    BrokerError,
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NewLeaderElectedError,
    NotControllerError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.controller.cluster import Cluster
from refbroker.controller.elections import default_election, rules_of
from refbroker.controller.partition_changes import RECOVERED, RECOVERING, Target, plan_change
from refbroker.metadata.image import NO_LEADER_CHANGE, PartitionState, TopicState

Proposal = AlterPartitionRequest.PartitionData
Member = AlterPartitionRequest.BrokerState
Result = AlterPartitionResponse.PartitionData

ANY_EPOCH = -1
FIRST_WITH_EPOCHS = 3


class AlterPartitionPlan(NamedTuple):
    """The outcome of a request: the records to be stored, and the response to be sent then."""

    records: list[PartitionChangeRecord]
    response: AlterPartitionResponse


def plan_alter_partition(cluster: Cluster, request: AlterPartitionRequest, version: int) -> AlterPartitionPlan:
    """Return what follows from a request; each partition has its own result.

    Parameters:
        version: of the request; in-sync replicas have broker epochs from 3 on.

    Raises:
        StaleBrokerEpochError: the broker is not registered, or in another epoch.
    """
    cluster.registered(request.broker_id, request.broker_epoch)
    plan = AlterPartitionPlan([], AlterPartitionResponse())
    for wanted in request.topics:
        topic = cluster.image.topics_by_id.get(wanted.topic_id)
        answer = AlterPartitionResponse.TopicData(topic_id=wanted.topic_id)
        plan.response.topics.append(answer)
        for proposal in wanted.partitions:
            try:
                if topic is None:
                    raise UnknownTopicIdError(str(wanted.topic_id))
                answer.partitions.append(_plan(cluster, request.broker_id, topic, proposal, version, plan.records))
            except BrokerError as error:
                answer.partitions.append(Result(partition_index=proposal.partition_index, error_code=error.code))
    return plan


def _plan(
    cluster: Cluster,
    leader: int,
    topic: TopicState,
    proposal: Proposal,
    version: int,
    records: list[PartitionChangeRecord],
) -> Result:
    """Append the record of a change, and return the result of the partition.

    Raises:
        BrokerError: the proposal is refused, or accepted and the broker no longer leads.
    """
    members = proposal.new_isr_with_epochs
    if version < FIRST_WITH_EPOCHS:
        members = [Member(broker_id=node, broker_epoch=ANY_EPOCH) for node in proposal.new_isr]
    state = _check(cluster, leader, topic, proposal, members)
    target = Target.of(state, default_election(cluster, topic))
    target.isr = [member.broker_id for member in members]
    target.recovery_state = proposal.leader_recovery_state
    change = plan_change(topic.topic_id, state, target, rules_of(cluster, topic, state))
    if change is None:
        return _result(state, PartitionChangeRecord(), state.partition_epoch)
    records.append(change)
    if change.leader not in (leader, NO_LEADER_CHANGE):
        raise NewLeaderElectedError(f"{change.leader} leads {topic.name}-{state.partition_id} after its reassignment")
    return _result(state, change, state.partition_epoch + 1)


def _result(state: PartitionState, change: PartitionChangeRecord, partition_epoch: int) -> Result:
    """Return the state of a partition after a change."""
    stays = change.leader == NO_LEADER_CHANGE
    recovery = change.leader_recovery_state
    return Result(
        partition_index=state.partition_id,
        leader_id=state.leader if stays else change.leader,
        leader_epoch=state.leader_epoch if stays else state.leader_epoch + 1,
        isr=state.isr if change.isr is None else change.isr,
        leader_recovery_state=state.leader_recovery_state if recovery < 0 else recovery,
        partition_epoch=partition_epoch,
    )


def _check(
    cluster: Cluster, leader: int, topic: TopicState, proposal: Proposal, members: Sequence[Member]
) -> PartitionState:
    """Return the partition that a valid proposal is about.

    Raises:
        BrokerError: the proposal is refused.
    """
    state = topic.partitions.get(proposal.partition_index)
    if state is None:
        raise UnknownTopicOrPartitionError(topic=topic.name, partition=proposal.partition_index)
    name = f"{topic.name}-{state.partition_id}"
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        # The leader knows more than this controller, which therefore is no longer the active one.
        raise NotControllerError(f"the epochs of {name} are {state.leader_epoch} and {state.partition_epoch} here")
    if proposal.leader_epoch < state.leader_epoch:
        raise FencedLeaderEpochError(f"the leader epoch of {name} is {state.leader_epoch}")
    if leader != state.leader:
        raise InvalidRequestError(f"the leader of {name} is {state.leader}")
    if proposal.partition_epoch < state.partition_epoch:
        raise InvalidUpdateVersionError(f"the partition epoch of {name} is {state.partition_epoch}")
    _check_members(name, state, proposal, [member.broker_id for member in members])
    for member in members:
        reason = _why_ineligible(cluster, member)
        if reason is not None:
            raise IneligibleReplicaError(f"replica {member.broker_id} of {name} is {reason}")
    return state


def _check_members(name: str, state: PartitionState, proposal: Proposal, isr: list[int]) -> None:
    if len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas):
        raise InvalidRequestError(f"the in-sync set {isr} of {name} is not among its replicas {state.replicas}")
    if state.leader not in isr:
        raise InvalidRequestError(f"the in-sync set {isr} of {name} lacks the leader {state.leader}")
    if proposal.leader_recovery_state not in (RECOVERED, RECOVERING):
        raise InvalidRequestError(f"{name} has no leader recovery state {proposal.leader_recovery_state}")
    if proposal.leader_recovery_state == RECOVERING and len(isr) > 1:
        raise InvalidRequestError(f"the in-sync set {isr} of {name} has others than its recovering leader")
    if proposal.leader_recovery_state == RECOVERING and state.leader_recovery_state == RECOVERED:
        raise InvalidRequestError(f"the leader of {name} has recovered and cannot be recovering again")


def _why_ineligible(cluster: Cluster, member: Member) -> str | None:
    """Return why a replica must not be in sync, None if it may be."""
    registered = cluster.image.brokers.get(member.broker_id)
    if registered is None:
        return "not registered"
    if registered.in_controlled_shutdown:
        return "shutting down"
    if registered.fenced:
        return "fenced"
    if member.broker_epoch not in (ANY_EPOCH, registered.broker_epoch):
        return f"in broker epoch {registered.broker_epoch}, not {member.broker_epoch}"
    return None
