"""The attempts to deliver one batch: how often it was sent, and what is known since.

Elsewhere: what follows from an answer (`settlement`), and the request that carries a batch (`produce_request`).
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.producer.outcomes import may_be_written
from kclient.types import PartitionInfo


class Attempts:
    """The attempts of one batch; written by the sender and its settlement, on the network thread.

    Attributes:
        made: how often the batch was sent.
        ordinal: its place among the partition's batches, given when it is first sent; -1 before.
        on_wire: whether a request that carries it is unanswered; it may have failed by its deadline meanwhile.
        retry_at: not before this time is it sent again.
        last_error: why the last attempt failed.
        maybe_written: whether an earlier attempt may have put it into the log unnoticed.
    """

    __slots__ = (
        "_failed_epoch",
        "_failed_leader",
        "last_error",
        "made",
        "maybe_written",
        "on_wire",
        "ordinal",
        "retry_at",
    )

    def __init__(self) -> None:
        self.made = 0
        self.ordinal = -1
        self.on_wire = False
        self.retry_at = 0.0
        self.last_error: BaseException | None = None
        self.maybe_written = False
        self._failed_leader: int | None = None
        self._failed_epoch: int | None = None

    def sent(self) -> None:
        """Count an attempt: a request now carries the batch."""
        self.on_wire = True
        self.made += 1

    def answered(self) -> None:
        """Record that no request carries the batch any longer, answered or not."""
        self.on_wire = False

    def follow(self, earlier: Attempts) -> None:
        """Copy what is known about the attempts of the batch that this one was split from."""
        self.ordinal = earlier.ordinal
        self.made = earlier.made
        self.maybe_written = earlier.maybe_written

    def failed(self, error: KafkaError) -> None:
        """Record why the last attempt failed, and whether the broker may have written the batch all the same."""
        self.last_error = error
        self.maybe_written |= may_be_written(error)

    def retry(self, at: float, leader: int | None, info: PartitionInfo | None) -> None:
        """Send the batch again at this time.

        Parameters:
            leader: who did not take it because the metadata was old; None for any other reason.
            info: the partition as the metadata has it.
        """
        self.retry_at = at
        self._failed_leader = leader
        self._failed_epoch = info.leader_epoch if info is not None and info.leader == leader else None

    def leader_moved(self, info: PartitionInfo) -> bool:
        """Whether there is another leader since the last attempt, for which no backoff need be waited."""
        return self._failed_leader is not None and (info.leader, info.leader_epoch) != (
            self._failed_leader,
            self._failed_epoch,
        )
