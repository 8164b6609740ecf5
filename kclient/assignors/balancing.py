"""Distribution of partitions that is as balanced as possible and moves as few of them as possible.

Members may subscribe to different topics, so balancing is a search for paths, in three steps:

    1. Each member keeps the partitions that it had and still subscribes to.
    2. An unowned partition goes to the subscriber with the fewest, partitions with the fewest subscribers first.
    3. While a chain of moves (A gives one to B, B gives one to C, ...) takes one from a member and gives one to another
       that has at least two less, the shortest such chain is made, starting with the member that has most.

After step 3 no assignment is better balanced: this is the theorem of cost-reducing paths for semi-matchings
(Harvey, Ladner, Lovász, Tamir 2003). Each chain moves one partition net, so no more are taken from their owners than
balance requires; with equal subscriptions every chain is a single move. A partition that has to move returns to an
earlier owner if that is equally good. Racks decide only between members with equally many partitions.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from kclient.assignors.base import Assignment, Racks
from kclient.types import TopicPartition


class Balancer:
    """One distribution of partitions.

    Parameters:
        subscribers: the subscribers of each topic, in the order in which they are served.
        partitions: the number of partitions of each topic.
        members: all members, in order.
        racks: the racks of each partition's replicas.
        member_racks: the racks of members.
    """

    def __init__(
        self,
        subscribers: Mapping[str, Sequence[str]],
        partitions: Mapping[str, int],
        members: Sequence[str],
        racks: Racks,
        member_racks: Mapping[str, str],
    ) -> None:
        self._subscribers = {topic: tuple(wanting) for topic, wanting in subscribers.items()}
        self._partitions = partitions
        self._rank = {member_id: rank for rank, member_id in enumerate(members)}
        self._racks = racks
        self._member_racks = member_racks
        self._load = dict.fromkeys(members, 0)
        self._owner: dict[TopicPartition, str] = {}
        # The partitions of each member, by topic: a move considers only topics that its taker subscribes to.
        self._held: dict[str, dict[str, list[TopicPartition]]] = {member_id: {} for member_id in members}
        self._earlier: dict[TopicPartition, str] = {}

    def run(self, owned: Mapping[str, Iterable[TopicPartition]], earlier: Mapping[TopicPartition, str]) -> Assignment:
        """Return the distribution.

        Parameters:
            owned: the partitions that each member has now and still wants; each at most once.
            earlier: the owner of a partition before its current one.
        """
        self._earlier = dict(earlier)
        for member_id, kept in owned.items():
            for partition in kept:
                self._give(partition, member_id)
        self._give_the_rest()
        self._level()
        return {
            member_id: [partition for topic in sorted(held) for partition in sorted(held[topic])]
            for member_id, held in self._held.items()
        }

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self._owner[partition] = member_id
        self._held[member_id].setdefault(partition.topic, []).append(partition)
        self._load[member_id] += 1

    def _take(self, partition: TopicPartition) -> None:
        member_id = self._owner.pop(partition)
        held = self._held[member_id]
        held[partition.topic].remove(partition)
        if not held[partition.topic]:
            del held[partition.topic]
        self._load[member_id] -= 1

    # Unowned partitions

    def _give_the_rest(self) -> None:
        topics = [topic for topic in self._partitions if self._subscribers.get(topic)]
        queues: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
        for topic in sorted(topics, key=lambda topic: (len(self._subscribers[topic]), topic)):
            takers = self._subscribers[topic]
            for number in range(self._partitions[topic]):
                partition = TopicPartition(topic, number)
                if partition not in self._owner:
                    queue = queues.setdefault(takers, [(-1, self._rank[one], one) for one in takers])
                    self._give(partition, self._fewest(partition, queue))

    def _fewest(self, partition: TopicPartition, queue: list[tuple[int, int, str]]) -> str:
        """Return the subscriber with the fewest partitions; among several one in the partition's rack, then the first.

        Parameters:
            queue: a heap of (load, rank, member); loads may be outdated.
        """
        while queue[0][0] != (load := self._load[queue[0][2]]):
            heapq.heapreplace(queue, (load, *queue[0][1:]))
        fewest, _, first = queue[0]
        racks = self._racks.get(partition)
        if not racks:
            return first
        equal = (one for one in self._subscribers[partition.topic] if self._load[one] == fewest)
        return min(equal, key=lambda one: (self._member_racks.get(one) not in racks, self._rank[one]))

    # Balancing

    def _level(self) -> None:
        """Apply chains of moves, beginning with the member that has most, until none improves the balance."""
        waiting = [(-load, self._rank[member_id], member_id) for member_id, load in self._load.items()]
        heapq.heapify(waiting)
        while waiting:
            load, rank, member_id = heapq.heappop(waiting)
            if -load != self._load[member_id]:
                # It has given partitions away in the meantime; it never received any, or it would not be above its
                # taker.
                heapq.heappush(waiting, (-self._load[member_id], rank, member_id))
                continue
            chain = self._chain_from(member_id)
            if chain:
                for partition, taker in reversed(chain):
                    self._take(partition)
                    self._give(partition, taker)
                heapq.heappush(waiting, (-self._load[member_id], rank, member_id))

    def _chain_from(self, start: str) -> list[tuple[TopicPartition, str]]:
        """Return the shortest chain of moves from a member to one that has at least two less; empty without one."""
        limit = self._load[start] - 2
        if limit < 0:
            return []
        came_by: dict[str, tuple[str, str]] = {start: ("", "")}
        seen_topics: set[str] = set()
        frontier = deque([start])
        while frontier:
            ends: list[str] = []
            for _ in range(len(frontier)):
                giver = frontier.popleft()
                for topic in self._held[giver]:
                    if topic in seen_topics:
                        continue
                    seen_topics.add(topic)
                    for taker in self._subscribers[topic]:
                        if taker not in came_by:
                            came_by[taker] = (giver, topic)
                            frontier.append(taker)
                            if self._load[taker] <= limit:
                                ends.append(taker)
            if ends:
                end = min(ends, key=lambda one: (self._load[one], self._rank[one]))
                return self._moves_to(end, came_by)
        return []

    def _moves_to(self, end: str, came_by: Mapping[str, tuple[str, str]]) -> list[tuple[TopicPartition, str]]:
        moves = []
        taker = end
        while came_by[taker][0]:
            giver, topic = came_by[taker]
            moves.append((self._best_to_move(giver, topic, taker), taker))
            taker = giver
        return moves[::-1]

    def _best_to_move(self, giver: str, topic: str, taker: str) -> TopicPartition:
        """Return the partition whose move is best: one that the taker had before, or is near; otherwise the last."""
        rack = self._member_racks.get(taker)

        def merit(partition: TopicPartition) -> tuple[bool, bool, int]:
            near = rack is not None and rack in self._racks.get(partition, ())
            return self._earlier.get(partition) == taker, near, partition.partition

        return max(self._held[giver][topic], key=merit)
