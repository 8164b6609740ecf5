"""The interface of assignors, which decide the partitions of each member. Derive your own from `Assignor`.

An assignor is pure: no sockets, no clock, no state but what it puts into its user data. One member of the group, its
leader, runs it for all; each member can send it a few bytes (`user_data`) and receives its partitions
(`on_assignment`). Source: KIP-429 for the rebalance protocols, KIP-881 for racks.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from kclient.types import TopicPartition

Assignment = dict[str, list[TopicPartition]]
Racks = Mapping[TopicPartition, frozenset[str]]
NO_RACKS: Racks = MappingProxyType({})


class RebalanceProtocol(enum.IntEnum):
    """How a member treats its partitions before a rebalance, with Kafka's numbers."""

    EAGER = 0
    """It gives all of them up."""
    COOPERATIVE = 1
    """It keeps them, and afterwards gives up only those assigned to another member."""


EAGER = RebalanceProtocol.EAGER
COOPERATIVE = RebalanceProtocol.COOPERATIVE


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as the assignor sees it.

    Attributes:
        topics: the subscribed topics.
        owned: its current partitions; none with the eager protocol.
        generation: the generation in which they were assigned, -1 if unknown.
        instance_id: the group_instance_id of a static member (KIP-345).
        rack: its rack.
        user_data: the data of its own assignor.
    """

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    instance_id: str | None = None
    rack: str | None = None
    user_data: bytes = b""


class Assignor(ABC):
    """Distributes partitions among the members of a group.

    Attributes:
        name: the name by which members agree on it; the same in every member, in any language.
        protocols: the supported rebalance protocols, the preferred one last.
    """

    name: ClassVar[str]
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (EAGER,)

    @abstractmethod
    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Assign the partitions.

        Parameters:
            partitions: the number of partitions of each existing topic.
            members: by member id.
            racks: the racks of each partition's replicas; empty if unknown.

        Returns:
            The partitions of each member, by member id; a member without any may be missing.
        """

    def user_data(self, topics: Iterable[str]) -> bytes:
        """Return the data that this member sends to the leader's assignor.

        Parameters:
            topics: the subscribed topics.
        """
        return b""

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027 - not all care
        """Note the assignment of this member.

        Parameters:
            assigned: its partitions.
            generation: the group's generation.
        """


def in_order(members: Mapping[str, Member]) -> list[str]:
    """Return the ids of members in the order in which they are served.

    Static members come first, by instance id, so that a restart, which changes the member id, does not change the
    assignment.
    """

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(members, key=rank)


def subscribers_by_topic(partitions: Mapping[str, int], members: Mapping[str, Member]) -> dict[str, list[str]]:
    """Return the subscribers of each existing topic, in order."""
    found: dict[str, list[str]] = {topic: [] for topic in partitions}
    for member_id in in_order(members):
        for topic in dict.fromkeys(members[member_id].topics):
            if topic in found:
                found[topic].append(member_id)
    return found
