"""The attempts to deliver one batch: their number, and what is known from them.

Elsewhere: the handling of a response (`settlement`), and the request (`produce_request`).
"""

from __future__ import annotations

from kclient.errors import KafkaError
from kclient.producer.outcomes import may_be_written
from kclient.types import PartitionInfo


class Attempts:
    """The attempts of one batch; written by the sender and its settlement, on the network thread.

    Attributes:
        made: how often the batch was sent.
        ordinal: its number among the partition's batches, assigned when it is first sent; -1 before.
        on_wire: whether a request with it has no response yet; the batch may have expired in the meantime.
        retry_at: the earliest time of the next attempt.
        last_error: why the last attempt failed.
        maybe_written: whether an earlier attempt may have written it without the producer's knowledge.
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
        """Record that no request has the batch any longer, with or without a response."""
        self.on_wire = False

    def follow(self, earlier: Attempts) -> None:
        """Copy what is known about the attempts of the batch that this one was split from."""
        self.ordinal = earlier.ordinal
        self.made = earlier.made
        self.maybe_written = earlier.maybe_written

    def failed(self, error: KafkaError) -> None:
        """Record why the last attempt failed, and whether the broker may nevertheless have written the batch."""
        self.last_error = error
        self.maybe_written |= may_be_written(error)

    def retry(self, at: float, leader: int | None, info: PartitionInfo | None) -> None:
        """Send the batch again at this time.

        Parameters:
            leader: the broker that refused it because of stale metadata; None for any other reason.
            info: the partition according to the metadata.
        """
        self.retry_at = at
        self._failed_leader = leader
        self._failed_epoch = info.leader_epoch if info is not None and info.leader == leader else None

    def leader_moved(self, info: PartitionInfo) -> bool:
        """Return whether the leader has changed since the last attempt, so that no backoff is necessary."""
        return self._failed_leader is not None and (info.leader, info.leader_epoch) != (
            self._failed_leader,
            self._failed_epoch,
        )
