"""The target size of batches, by the distance of the broker.

`batch_size` is the maximum. A nearby broker handles requests of half a megabyte faster than larger ones, which exceed
its caches; smaller ones cost more turns of the network thread. A distant broker needs more bytes in flight to use the
bandwidth. So a request starts at half a megabyte, shared by the partitions with something to send, and grows with its
round trip, minus the time that it waits for other requests.
"""

from __future__ import annotations

REQUEST = 524_288
SMALLEST = 131_072
BYTES_PER_SECOND = 100_000_000
"""The throughput that one request, of the five that may be in flight, should allow: 500 MB/s in total."""

DRIFT = 0.02
"""How fast the estimate follows responses that take longer, and may only have waited for others."""

COLD = 2
"""The number of first responses that do not count, while connection and broker are warming up."""


class BatchSizer:
    """The round trip to each broker, and the batch size that goes with it.

    Parameters:
        batch_size: the maximum in bytes.
    """

    def __init__(self, batch_size: int) -> None:
        self._batch_size = batch_size
        self._round_trips: dict[int, float] = {}
        self._answers: dict[int, int] = {}

    def answered(self, node: int, seconds: float, depth: int) -> None:
        """Record the response to a request.

        Parameters:
            seconds: its round trip.
            depth: the number of requests in flight when it was sent, itself included. It waited for those, so only its
                share counts; for a distant broker that is too little, but by five times at most.
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
        """Return the target size of a batch in bytes.

        Parameters:
            partitions: the number of partitions with something to send to this broker.
            compression: the compressed size as a fraction of the original.
        """
        request = max(REQUEST, self._round_trips.get(node, 0.0) * BYTES_PER_SECOND)
        return min(self._batch_size, int(max(SMALLEST, request / partitions) / max(compression, 0.01)))
