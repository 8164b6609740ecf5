"""The quorum of controllers: its leader, voters and observers, and changes of its voters (KIP-595, KIP-836, KIP-853).

Any broker takes these requests and forwards them to the active controller. A broker of Apache Kafka may keep forwarding
them to a controller that no longer leads, whose error is not the one that makes the broker look for the new leader.
Therefore a repeated request goes to the next broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

import msgspec

from kclient.admin.arguments import instance, number, optional, several, text
from kclient.admin.core import AdminCore
from kclient.errors import KafkaError, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from kclient.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kclient.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

_METADATA_TOPIC = "__cluster_metadata"


class RaftVoterEndpoint(NamedTuple):
    """An address of a controller: the name of its listener, such as "CONTROLLER", the host and the port."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class QuorumReplica(msgspec.Struct, frozen=True):
    """A voter or an observer, as the leader of the quorum knows it.

    Attributes:
        replica_id: the id of the node.
        directory_id: the id of its metadata directory; None if the cluster does not use directory ids (before
            kraft.version 1).
        log_end_offset: the end of its log, -1 while it is unknown.
        last_fetch_timestamp: when the leader last received a fetch from it, in milliseconds since the epoch, or None.
        last_caught_up_timestamp: when it last had everything that the leader had, likewise.
    """

    replica_id: int
    directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp: int | None = None
    last_caught_up_timestamp: int | None = None


class QuorumInfo(msgspec.Struct, frozen=True):
    """The quorum that keeps the cluster's metadata.

    Attributes:
        leader_id: the id of the active controller; None during an election.
        leader_epoch: the epoch of the leader.
        high_watermark: the offset up to which the metadata are committed.
        voters: the controllers that vote.
        observers: the brokers, and the controllers that do not vote.
        nodes: the addresses of the voters by node id; empty from brokers before Apache Kafka 3.9.
    """

    leader_id: int | None
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[RaftVoterEndpoint, ...]] = {}


def describe_metadata_quorum(core: AdminCore, deadline: Deadline) -> Operation[QuorumInfo]:
    kind = DescribeQuorumRequest
    request = kind(topics=[kind.TopicData(topic_name=_METADATA_TOPIC, partitions=[kind.PartitionData()])])

    brokers = _brokers(core)

    def attempt() -> Operation[QuorumInfo]:
        answer: DescribeQuorumResponse = yield from core.request(next(brokers), kind, lambda version: request, deadline)
        raise_for_code(answer.error_code, answer.error_message, api="DescribeQuorum")
        found = [each for topic in answer.topics for each in topic.partitions]
        if len(found) != 1:
            raise KafkaError(f"the broker's response has {len(found)} partitions, not that of the metadata log")
        raise_for_code(found[0].error_code, found[0].error_message, api="DescribeQuorum")
        return _quorum(found[0], answer.nodes)

    return (yield from core.retry(attempt, deadline))


def add_raft_voter(
    core: AdminCore,
    voter_id: int,
    directory_id: UUID,
    endpoints: RaftVoterEndpoint | Iterable[RaftVoterEndpoint],
    cluster_id: str | None,
    deadline: Deadline,
) -> Operation[None]:
    kind = AddRaftVoterRequest
    listeners = [
        kind.Listener(
            name=text(each.listener, deadline.name),
            host=text(each.host, deadline.name),
            port=number(each.port, deadline.name),
        )
        for each in several(endpoints, RaftVoterEndpoint, deadline.name)
    ]
    number(voter_id, f"{deadline.name}(voter_id=)")
    instance(directory_id, UUID, f"{deadline.name}(directory_id=)")
    optional(cluster_id, str, f"{deadline.name}(cluster_id=)")

    def build(version: int) -> AddRaftVoterRequest:
        return kind(
            cluster_id=cluster_id,
            timeout_ms=int(deadline.remaining() * 1000),
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=listeners,
        )

    brokers = _brokers(core)

    def attempt() -> Operation[None]:
        answer: AddRaftVoterResponse = yield from core.request(next(brokers), kind, build, deadline)
        raise_for_code(answer.error_code, answer.error_message, api="AddRaftVoter")

    yield from core.retry(attempt, deadline)


def remove_raft_voter(
    core: AdminCore, voter_id: int, directory_id: UUID, cluster_id: str | None, deadline: Deadline
) -> Operation[None]:
    request = RemoveRaftVoterRequest(
        cluster_id=optional(cluster_id, str, f"{deadline.name}(cluster_id=)"),
        voter_id=number(voter_id, f"{deadline.name}(voter_id=)"),
        voter_directory_id=instance(directory_id, UUID, f"{deadline.name}(directory_id=)"),
    )

    brokers = _brokers(core)

    def attempt() -> Operation[None]:
        answer: RemoveRaftVoterResponse = yield from core.request(
            next(brokers), RemoveRaftVoterRequest, lambda version: request, deadline
        )
        raise_for_code(answer.error_code, answer.error_message, api="RemoveRaftVoter")

    yield from core.retry(attempt, deadline)


def _brokers(core: AdminCore) -> Iterator[int]:
    """Yield the broker for each attempt: any of them, and then each in turn."""
    yield ANY_NODE
    while True:
        yield from list(core.engine.metadata.cluster.brokers) or [ANY_NODE]


def _quorum(
    partition: DescribeQuorumResponse.PartitionData, nodes: Iterable[DescribeQuorumResponse.Node]
) -> QuorumInfo:
    return QuorumInfo(
        partition.leader_id if partition.leader_id >= 0 else None,
        partition.leader_epoch,
        partition.high_watermark,
        tuple(map(_replica, partition.current_voters)),
        tuple(map(_replica, partition.observers)),
        {
            node.node_id: tuple(RaftVoterEndpoint(each.name, each.host, each.port) for each in node.listeners)
            for node in nodes
        },
    )


def _replica(state: DescribeQuorumResponse.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id if state.replica_directory_id.int else None,
        state.log_end_offset,
        state.last_fetch_timestamp if state.last_fetch_timestamp >= 0 else None,
        state.last_caught_up_timestamp if state.last_caught_up_timestamp >= 0 else None,
    )
