"""The placement of new partitions on brokers and racks, and the check of placements by hand.

Replicas are spread over racks first, and over brokers within racks second, both in turns that begin at random places,
so that each partition has other brokers than the one before. Fenced brokers come last in their rack, and are never the
first replica, which is the leader. After as many partitions as there are unfenced brokers, all orders are shuffled.
Source: Kafka's `StripedReplicaPlacer`, which draws the same random numbers in the same order.

Elsewhere: the records of topics (`topics`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kclient.errors import InvalidReplicaAssignmentError, InvalidReplicationFactorError
from refbroker.metadata.directories import takes_new_partitions
from refbroker.metadata.image import ClusterImage


class UsableBroker(NamedTuple):
    """A broker on which replicas can be placed.

    Attributes:
        rack: its rack; brokers without one are in a rack of their own.
    """

    broker_id: int
    rack: str | None
    fenced: bool


def usable_brokers(image: ClusterImage) -> list[UsableBroker]:
    """Return the brokers that can have new replicas: all but those that shut down or whose directories are cordoned."""
    return [
        UsableBroker(node, one.rack, one.fenced)
        for node, one in image.brokers.items()
        if not (one.in_controlled_shutdown and not one.fenced) and takes_new_partitions(one.record)
    ]


def place(
    brokers: Iterable[UsableBroker], partitions: int, replication_factor: int, rng: random.Random
) -> list[list[int]]:
    """Return the brokers of each partition, its first leader first.

    Parameters:
        brokers: those that can be chosen.
        partitions: the number of partitions.
        rng: for the places where the turns begin.

    Raises:
        InvalidReplicationFactorError: there are too few brokers, or all are fenced.
    """
    racks = _Racks(brokers, rng)
    if replication_factor <= 0:
        raise InvalidReplicationFactorError(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if not racks.unfenced:
        raise InvalidReplicationFactorError(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replication_factor > racks.count:
        raise InvalidReplicationFactorError(
            f"The target replication factor of {replication_factor} cannot be reached because only {racks.count} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    return [racks.place(replication_factor) for _ in range(partitions)]


class _Turns:
    """The brokers of a list in turn, each at most once per partition.

    Parameters:
        brokers: sorted.
        rng: chooses the place where the turns begin.
    """

    def __init__(self, brokers: Sequence[int], rng: random.Random) -> None:
        self.brokers = list(brokers)
        self._offset = rng.randrange(len(self.brokers)) if self.brokers else 0
        self._taken = 0
        self._round = 0

    def next(self, number: int) -> int | None:
        """Return the next broker, None if all were taken in this round.

        Parameters:
            number: that of the round; in a new one the turns begin one place further.
        """
        size = len(self.brokers)
        if not size:
            return None
        if number != self._round:
            self._round, self._taken = number, 0
            self._offset = (self._offset + 1) % size
        if self._taken >= size:
            return None
        broker = self.brokers[(self._taken + self._offset) % size]
        self._taken += 1
        return broker


class _Rack:
    """The brokers of a rack."""

    def __init__(self, brokers: Sequence[UsableBroker], rng: random.Random) -> None:
        self.fenced = _Turns(sorted(one.broker_id for one in brokers if one.fenced), rng)
        self.unfenced = _Turns(sorted(one.broker_id for one in brokers if not one.fenced), rng)

    def next(self, number: int) -> int | None:
        """Return the next broker, an unfenced one if there is one left; None if all were taken."""
        broker = self.unfenced.next(number)
        return self.fenced.next(number) if broker is None else broker

    def shuffle(self, rng: random.Random) -> None:
        rng.shuffle(self.fenced.brokers)
        rng.shuffle(self.unfenced.brokers)


class _Racks:
    """The racks in turn."""

    def __init__(self, brokers: Iterable[UsableBroker], rng: random.Random) -> None:
        by_name: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_name.setdefault(broker.rack, []).append(broker)
        self._rng = rng
        # Brokers without a rack come first.
        self._names = sorted(by_name, key=lambda name: (name is not None, name or ""))
        self._racks = {name: _Rack(by_name[name], rng) for name in self._names}
        self._offset = rng.randrange(len(self._names)) if self._names else 0
        self._round = 0
        self.unfenced = sum(len(rack.unfenced.brokers) for rack in self._racks.values())
        self.count = self.unfenced + sum(len(rack.fenced.brokers) for rack in self._racks.values())

    def place(self, replication_factor: int) -> list[int]:
        """Return the brokers of the next partition."""
        # With a single unfenced broker, a round that begins again would never end.
        if self._round == self.unfenced > 1:
            self._shuffle()
            self._round = 0
        self._offset %= len(self._names)
        leader, first = self._first()
        placed = [leader]
        at = self._offset
        skipped: int | None = first
        while len(placed) < replication_factor:
            if at == skipped:
                # The rack of the leader is passed over once.
                skipped = None
            else:
                broker = self._racks[self._names[at]].next(self._round)
                if broker is not None:
                    placed.append(broker)
            at = (at + 1) % len(self._names)
        self._round += 1
        self._offset += 1
        return placed

    def _first(self) -> tuple[int, int]:
        """Return the next unfenced broker, and the place of its rack."""
        at = self._offset
        while True:
            broker = self._racks[self._names[at]].unfenced.next(self._round)
            if broker is not None:
                return broker, at
            at = (at + 1) % len(self._names)

    def _shuffle(self) -> None:
        self._rng.shuffle(self._names)
        for rack in self._racks.values():
            rack.shuffle(self._rng)


def check_replicas(image: ClusterImage, replicas: Sequence[int], replication_factor: int | None = None) -> list[int]:
    """Check the replicas of a partition.

    Parameters:
        replication_factor: the required number of replicas; None for any.

    Raises:
        InvalidReplicaAssignmentError: a broker does not exist or occurs twice, or the list is empty or has another
            length.
    """
    if not replicas:
        raise InvalidReplicaAssignmentError("The manual partition assignment includes an empty replica list.")
    previous = None
    for broker in sorted(replicas):
        if broker not in image.brokers:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes broker {broker}, but no such broker is registered."
            )
        if broker == previous:
            raise InvalidReplicaAssignmentError(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        previous = broker
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignmentError(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    return list(replicas)


def check_assignment(
    image: ClusterImage, number: int, replicas: Sequence[int], replication_factor: int | None
) -> list[int]:
    """Check the replicas of a new partition, one of which must be able to be the leader.

    Parameters:
        number: of the partition.
        replication_factor: the required number of replicas; None for any.

    Raises:
        InvalidReplicaAssignmentError: as `check_replicas`, or no broker is active.
    """
    checked = check_replicas(image, replicas, replication_factor)
    if not any(image.brokers[node].is_active for node in checked):
        raise InvalidReplicaAssignmentError(
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in "
            "controlled shutdown."
        )
    return checked
