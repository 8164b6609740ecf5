"""Sticky: as balanced as possible, and as few moves as possible. The algorithm is in `balancing`.

Members give up all partitions before a rebalance, so each sends its previous ones as user data, in the format of the
Java client, so that a member of either client can be the leader. All integers are big-endian:

    int32   number of topics, then for each
              int16   length of the name, then its bytes
              int32   number of partitions, then an int32 for each
    int32   the generation in which it had them; missing in Java before 2.3

If two members claim one partition, the later generation keeps it; in the same generation neither does, because one of
them has missed a rebalance. Source: KIP-54, KIP-341.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

from kclient._topics import by_topic
from kclient.assignors.balancing import Balancer
from kclient.assignors.base import NO_RACKS, Assignment, Assignor, Member, Racks, in_order, subscribers_by_topic
from kclient.types import TopicPartition

NO_GENERATION = -1
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class StickyAssignor(Assignor):
    """Keeps what can stay; Kafka's `sticky`."""

    name = "sticky"

    def __init__(self) -> None:
        self._assigned: tuple[TopicPartition, ...] = ()
        self._generation = NO_GENERATION

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        """See `Assignor`."""
        claims = {member_id: self._claim(member) for member_id, member in members.items()}
        return assign_sticky(partitions, members, claims, racks)

    def _claim(self, member: Member) -> Claim:
        return decode_user_data(member.user_data)

    def user_data(self, topics: Iterable[str]) -> bytes:
        """Return this member's last partitions and their generation."""
        return encode_user_data(self._assigned, self._generation) if self._assigned else b""

    def on_assignment(self, assigned: Sequence[TopicPartition], generation: int) -> None:
        """See `Assignor`."""
        self._assigned = tuple(assigned)
        self._generation = generation


Claim = tuple[Sequence[TopicPartition], int]
"""The partitions that a member claims, and their generation."""


def assign_sticky(
    partitions: Mapping[str, int], members: Mapping[str, Member], claims: Mapping[str, Claim], racks: Racks
) -> Assignment:
    """Assign partitions so that members keep what they claim, as far as balance allows; otherwise as
    `Assignor.assign`.
    """
    order = in_order(members)
    owned, earlier = _settle(partitions, members, claims, order)
    member_racks = {member_id: member.rack for member_id, member in members.items() if member.rack}
    balancer = Balancer(subscribers_by_topic(partitions, members), partitions, order, racks, member_racks)
    return balancer.run(owned, earlier)


def _settle(
    partitions: Mapping[str, int], members: Mapping[str, Member], claims: Mapping[str, Claim], order: Sequence[str]
) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, str]]:
    """Return the owner and the previous owner of each partition, from the members' claims."""
    claimants: dict[TopicPartition, list[tuple[int, str]]] = {}
    for member_id in order:
        wanted = set(members[member_id].topics)
        claimed, generation = claims[member_id]
        for partition in dict.fromkeys(claimed):
            if partition.topic in wanted and 0 <= partition.partition < partitions.get(partition.topic, 0):
                claimants.setdefault(partition, []).append((generation, member_id))
    owned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in order}
    earlier: dict[TopicPartition, str] = {}
    for partition, found in claimants.items():
        latest = max(generation for generation, _ in found)
        owners = [member_id for generation, member_id in found if generation == latest]
        if len(owners) == 1:
            owned[owners[0]].append(partition)
        before = [pair for pair in found if pair[0] < latest]
        if before:
            earlier[partition] = max(before)[1]
    return owned, earlier


def encode_user_data(assigned: Iterable[TopicPartition], generation: int) -> bytes:
    """Return the user data of a member in the format of Java's sticky assignor."""
    topics = by_topic(assigned)
    parts = [_INT32.pack(len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name, struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers)]
    return b"".join((*parts, _INT32.pack(generation)))


def decode_user_data(data: bytes) -> Claim:
    """Return the claim of a member; an empty one for malformed bytes, as of an old client."""
    found: list[TopicPartition] = []
    position = _INT32.size
    try:
        (topics,) = _INT32.unpack_from(data)
        for _ in range(topics):
            (length,) = _INT16.unpack_from(data, position)
            position += _INT16.size
            topic = data[position : position + length].decode()
            position += length
            (count,) = _INT32.unpack_from(data, position)
            position += _INT32.size
            # Checked before memory is allocated, because it comes from the wire.
            if not 0 <= count <= (len(data) - position) // _INT32.size:
                return (), NO_GENERATION
            numbers = struct.unpack_from(f">{count}i", data, position)
            position += count * _INT32.size
            found += [TopicPartition(topic, number) for number in numbers]
        generation = _INT32.unpack_from(data, position)[0] if len(data) - position >= _INT32.size else NO_GENERATION
    except (struct.error, UnicodeDecodeError):
        return (), NO_GENERATION
    return found, generation
