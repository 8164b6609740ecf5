"""Subscribers in the order of their number of partitions, for `uniform_heterogeneous`: the next receiver and giver.

    partitions        receivers            givers
        3                                 [ c  d ]
        2                             b
        1          [ a  e  f ]

The subscribers with the fewest partitions are the receivers. Each of them gets one partition, in turn. Then all are one
level higher, those already at that level join them at the end, and the first one is next again. Givers are the mirror
image: from the last one down, then one level lower, joined by those at that level. A giver without a partition to give
is excluded, and the last giver takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Ranking:
    """The order in which subscribers receive and give partitions.

    Parameters:
        members: the subscribers, in the order of their ids.
        sizes: the number of partitions of each member; the caller updates it as it moves partitions.
    """

    def __init__(self, members: Sequence[str], sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._ranked = sorted(members, key=sizes.__getitem__)
        least, most = sizes[self._ranked[0]], sizes[self._ranked[-1]]
        self.spread = most - least
        self._receiving_level = least - 1
        self._receivers_end = self._receiver = 0
        self._giving_level = most + 1
        self._givers_begin = self._givers_end = len(self._ranked)
        self._giver = len(self._ranked) - 1

    @property
    def is_balanced(self) -> bool:
        """Whether the givers are at most one level above the receivers, so that moving a partition would not help."""
        return self._giving_level - self._receiving_level <= 1

    def next_receiver(self) -> str:
        """Return the member that receives the next partition."""
        if self._receiver >= self._receivers_end:
            self._receiving_level += 1
            while self._receivers_end < len(self._ranked) and self._stands(self._receivers_end, self._receiving_level):
                self._receivers_end += 1
            self._receiver = 0
        self._receiver += 1
        return self._ranked[self._receiver - 1]

    def next_giver(self) -> str | None:
        """Return the member that gives a partition next; None if no member can."""
        if self._giver < self._givers_begin:
            if self._givers_end <= self._givers_begin and self._givers_begin > 0:
                # All givers of this level were excluded: continue with the next lower member.
                self._giving_level = self._sizes[self._ranked[self._givers_begin - 1]]
            else:
                self._giving_level -= 1
            while self._givers_begin > 0 and self._stands(self._givers_begin - 1, self._giving_level):
                self._givers_begin -= 1
            self._giver = self._givers_end - 1
        if self._giver < 0:
            return None
        self._giver -= 1
        return self._ranked[self._giver + 1]

    def exclude_giver(self) -> None:
        """Exclude the last giver, which has no partition that can be moved."""
        place, last = self._giver + 1, self._givers_end - 1
        self._ranked[place], self._ranked[last] = self._ranked[last], self._ranked[place]
        self._givers_end -= 1

    def _stands(self, place: int, level: int) -> bool:
        return self._sizes[self._ranked[place]] == level
