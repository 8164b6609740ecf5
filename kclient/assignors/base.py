"""What an assignor is: who of a group's members gets which partitions. Derive from `Assignor` for one of your own.

An assignor is pure: no sockets, no clock, no state but what it puts into its user data. One member of the group, its
leader, runs it for all; each member can hand it a few bytes beforehand (`user_data`) and hears what it was given
(`on_assignment`). Source: KIP-429 for the two ways to rebalance, KIP-881 for racks.
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
    """What a member does with its partitions before a rebalance; the numbers are those of Kafka."""

    EAGER = 0
    """It gives all of them up."""
    COOPERATIVE = 1
    """It keeps them, and gives up afterwards only what another member is to have."""


EAGER = RebalanceProtocol.EAGER
COOPERATIVE = RebalanceProtocol.COOPERATIVE


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the group, as the assignor sees it.

    Attributes:
        topics: what it subscribes to.
        owned: the partitions it has now; none where members give everything up before a rebalance.
        generation: in which it was given them, -1 when that is not known.
        instance_id: of a static member (KIP-345).
        rack: where it is.
        user_data: what its own assignor put there.
    """

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    instance_id: str | None = None
    rack: str | None = None
    user_data: bytes = b""


class Assignor(ABC):
    """Divides partitions among the members of a group.

    Attributes:
        name: by which the members agree on it; the same in every member, whatever language it is written in.
        protocols: the ways to rebalance that it can do, the preferred one last.
    """

    name: ClassVar[str]
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (EAGER,)

    @abstractmethod
    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        """Divide the partitions.

        Parameters:
            partitions: how many each topic has; a topic that does not exist is not there.
            members: by member id.
            racks: of each partition's replicas; empty where nobody has said in which rack it is.

        Returns:
            The partitions of each member, by member id; a member without any may be left out.
        """

    def user_data(self, topics: Iterable[str]) -> bytes:
        """What this member tells the assignor of the group's leader.

        Parameters:
            topics: what it subscribes to.
        """
        return b""

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:  # noqa: B027 - not all care
        """Take note of what this member has been given.

        Parameters:
            assigned: its partitions.
            generation: of the group.
        """


def in_order(members: Mapping[str, Member]) -> list[str]:
    """The ids of members in the order in which they are served.

    Static members come first, by instance id, so that a restart, which changes the member id, changes nothing.
    """

    def rank(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(members, key=rank)


def subscribers_by_topic(partitions: Mapping[str, int], members: Mapping[str, Member]) -> dict[str, list[str]]:
    """Who subscribes to each topic that exists, in order."""
    found: dict[str, list[str]] = {topic: [] for topic in partitions}
    for member_id in in_order(members):
        for topic in dict.fromkeys(members[member_id].topics):
            if topic in found:
                found[topic].append(member_id)
    return found
