"""How large batches should become, between what is near and what is far.

`batch_size` is the most. A broker near by takes requests of half a megabyte faster than those twice as
large, which leave its caches; smaller ones cost more turns of the network thread. One that is far away
needs more bytes on their way to keep the line busy. So a request starts at half a megabyte, shared by the
partitions that have something to send, and grows with the time that it takes, less what it waits for others.
"""

from __future__ import annotations

REQUEST = 524_288
SMALLEST = 131_072
BYTES_PER_SECOND = 100_000_000
"""What one request, of the five that may be on their way, should be good for: 500 MB/s in all."""

DRIFT = 0.02
"""How fast the estimate follows answers that take longer, and may only have waited for others."""

COLD = 2
"""So many first answers do not count: connection and broker are warming up."""


class Sizing:
    """The round trip to each broker, and the batch size that goes with it.

    Parameters:
        batch_size: the most, in bytes.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._round_trips: dict[int, float] = {}
        self._answers: dict[int, int] = {}

    def answered(self, node: int, seconds: float, depth: int) -> None:
        """A request was answered.

        Parameters:
            seconds: how long that took.
            depth: how many were on their way when it was sent, itself included. It waited for those, so that only
                its share counts; for a broker far away that is too little, but never by more than five times.
        """
        answers = self._answers[node] = self._answers.get(node, 0) + 1
        if answers <= COLD:
            return
        share = seconds / depth
        known = self._round_trips.get(node)
        if known is None or share < known:
            self._round_trips[node] = share
        else:
            self._round_trips[node] = known + DRIFT * (share - known)

    def size(self, node: int, partitions: int, compression: float) -> int:
        """How many bytes of records a batch should hold.

        Parameters:
            partitions: how many have something to send to this broker.
            compression: how much of the bytes is left on the wire, as a part of 1.
        """
        request = max(REQUEST, self._round_trips.get(node, 0.0) * BYTES_PER_SECOND)
        return min(self._batch_size, int(max(SMALLEST, request / partitions) / max(compression, 0.01)))
