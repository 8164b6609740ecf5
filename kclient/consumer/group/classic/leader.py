"""The work of a group's leader: it decodes the members' subscriptions and calls the assignor.

Elsewhere: when (`rebalance`), and the assignors themselves (`kclient.assignors`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kclient.assignors import Assignment, Assignor, CooperativeStickyAssignor, Member
from kclient.consumer.group.classic.protocol import GroupSubscription, decode_subscription, encode_assignment
from kclient.consumer.group.events import JoinedMember
from kclient.errors import IllegalStateError, UnknownTopicOrPartitionError
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.net.metadata import Cluster

Counts = dict[str, int]
"""The number of partitions of topics; 0 for a topic that does not exist."""


class Division:
    """One assignment that the leader is making.

    Parameters:
        members: all members of the group, this one among them.

    Raises:
        ProtocolError: the subscription of a member is malformed.
    """

    def __init__(self, members: Sequence[JoinedMember]) -> None:
        self._subscriptions: dict[str, GroupSubscription] = {}
        self._members: dict[str, Member] = {}
        for member in members:
            told = decode_subscription(member.metadata)
            self._subscriptions[member.member_id] = told
            self._members[member.member_id] = Member(
                topics=tuple(told.topics),
                owned=tuple(told.owned),
                generation=told.generation,
                instance_id=member.instance_id,
                rack=told.rack,
                user_data=told.user_data,
            )

    @property
    def topics(self) -> set[str]:
        """All topics that the members subscribe to."""
        return {topic for member in self._members.values() for topic in member.topics}

    def divide(self, assignor: Assignor, cluster: Cluster, *, cooperative: bool) -> dict[str, bytes]:
        """Return the encoded assignments by member id.

        Raises:
            IllegalStateError: the assignor assigned partitions to an unknown member, or assigned a partition to one
                member while another still owns it.
        """
        known = {topic: count for topic, count in partition_counts(cluster, self.topics, {}).items() if count}
        racks = self._racks(cluster, known) if any(member.rack for member in self._members.values()) else {}
        assignment = assignor.assign(known, self._members, racks)
        strangers = assignment.keys() - self._members.keys()
        if strangers:
            raise IllegalStateError(
                f"the assignor {assignor.name!r} gave partitions to {', '.join(sorted(strangers))}, which is not a "
                "member"
            )
        # The cooperative sticky assignor compares generations: what it takes away was an outdated claim.
        if cooperative and not isinstance(assignor, CooperativeStickyAssignor):
            self._check_cooperative(assignor, assignment)
        return {member_id: encode_assignment(assignment.get(member_id, ())) for member_id in self._members}

    def _racks(self, cluster: Cluster, counts: Counts) -> dict[TopicPartition, frozenset[str]]:
        found: dict[TopicPartition, frozenset[str]] = {}
        for topic in counts:
            for info in cluster.partitions(topic) or ():
                nodes = [cluster.brokers[node] for node in info.replicas if node in cluster.brokers]
                found[TopicPartition(topic, info.partition)] = frozenset(node.rack for node in nodes if node.rack)
        return found if any(found.values()) else {}

    def _check_cooperative(self, assignor: Assignor, assignment: Assignment) -> None:
        revoked: set[TopicPartition] = set()
        added: set[TopicPartition] = set()
        for member_id, member in self._members.items():
            given, owned = set(assignment.get(member_id, ())), set(member.owned)
            revoked |= owned - given
            added |= given - owned
        if revoked & added:
            names = ", ".join(map(str, sorted(revoked & added)))
            raise IllegalStateError(
                f"the cooperative assignor {assignor.name!r} assigned {names} while another member still reads it; "
                "assign it in the next rebalance"
            )


def partition_counts(cluster: Cluster, topics: Iterable[str], before: Mapping[str, int]) -> Counts:
    """Return the current number of partitions of topics; the previous number if it is currently unknown."""
    counts: Counts = {}
    for topic in topics:
        info = cluster.topics.get(topic)
        if info is None or isinstance(info.error, UnknownTopicOrPartitionError):
            counts[topic] = 0
        elif info.error is not None:
            counts[topic] = before.get(topic, 0)
        else:
            counts[topic] = len(info.partitions)
    return counts
