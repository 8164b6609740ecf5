"""The batches of one producer that have no result: in the queues of their partitions, or in Produce requests.

Elsewhere: which batch is sent when (`sender`), and results (`settlement`).
"""

from __future__ import annotations

from kclient.producer.accumulator import Accumulator
from kclient.producer.batch import ProducerBatch, Queue
from kclient.producer.produce_request import InFlightProduce


class UnsettledBatches:
    """The queues and requests with batches that have no result (network thread).

    Attributes:
        queues: those that hold batches, in the order in which they got their first one.
        in_flight: the Produce requests without a response.
    """

    def __init__(self, accumulator: Accumulator) -> None:
        self.queues: dict[Queue, None] = {}
        self.in_flight: dict[InFlightProduce, None] = {}
        self._accumulator = accumulator

    def take_fresh(self) -> None:
        """Take over the queues that the application's threads have begun to fill."""
        for queue in self._accumulator.take_fresh():
            self.queues[queue] = None

    def put_back(self, queue: Queue, batches: list[ProducerBatch]) -> None:
        """Put batches that were sent before back in front of all later ones."""
        later = []
        while queue.ready and -1 < queue.ready[0].attempts.ordinal < batches[0].attempts.ordinal:
            later.append(queue.ready.popleft())
        queue.ready.extendleft(reversed(later + batches))
        self.queues[queue] = None

    def seal(self) -> None:
        """Close the open batches, so that they are sent without waiting for more records."""
        self.take_fresh()
        for queue in self.queues:
            queue.seal()

    def take_all(self) -> list[ProducerBatch]:
        """Return every batch without a result; the open ones are closed, so that they are sent at once."""
        self.seal()
        batches = [batch for produce in self.in_flight for batch in produce.batches.values() if not batch.settled]
        for queue in self.queues:
            batches.extend(queue.ready)
        return batches

    def is_empty(self) -> bool:
        """Return whether every batch has a result and every request a response."""
        self.take_fresh()
        return not self.in_flight and not any(queue.ready or queue.open_since() >= 0.0 for queue in self.queues)
