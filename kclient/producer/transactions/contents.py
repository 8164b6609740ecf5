"""The contents of one transaction: the partitions and groups that were added to it, and those still to be added.

With version 1 each partition and group is added by a request; with version 2 the first batch of a partition does so
itself, and so do offsets. Elsewhere: the transaction's state (`manager`), and when a request is sent (`exchange`).
"""

from __future__ import annotations

from collections import deque

from kclient.errors import KafkaError, UnknownTopicOrPartitionError
from kclient.producer.transactions.interfaces import PendingCall
from kclient.producer.transactions.requests import (
    AddOffsetsStep,
    AddPartitionsStep,
    CommitOffsetsStep,
    ProducerIdentity,
    Step,
)
from kclient.types import TopicPartition


class Contents:
    """The contents of one transaction.

    Attributes:
        started: whether the coordinator may know the transaction; otherwise there is nothing to end.
        may_be_unknown: whether it is not certain that the coordinator knows a transaction that has `started`.
        needs_epoch: whether a late request of the transaction may still arrive; with version 1, only a new epoch keeps
            it out of the next transaction.
    """

    def __init__(self) -> None:
        self.started = False
        self.may_be_unknown = False
        self.needs_epoch = False
        self._new: dict[TopicPartition, None] = {}
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._offsets: deque[CommitOffsetsStep] = deque()
        self._calls: dict[Step, PendingCall] = {}

    def has(self, tp: TopicPartition, present: Step | None) -> bool:
        """Return whether a partition was added; if not, and the current step does not add it, a later step will."""
        if tp in self._partitions:
            return True
        if not isinstance(present, AddPartitionsStep) or tp not in present.partitions:
            self._new[tp] = None
        return False

    def add_offsets(self, step: CommitOffsetsStep, call: PendingCall) -> None:
        """Store offsets, for a call that waits."""
        self._calls[step] = call
        self._offsets.append(step)

    def next_step(self, producer: ProducerIdentity, *, is_v2: bool) -> Step | None:
        """Return the next partitions or offsets to add."""
        if self._new:
            partitions, self._new = self._new, {}
            return AddPartitionsStep(producer, partitions)
        if not self._offsets:
            return None
        group = self._offsets[0].group_id
        if not is_v2 and group not in self._groups:
            return AddOffsetsStep(producer, group)
        return self._offsets.popleft()

    def begun(self, step: Step) -> None:
        """Note that a step was sent."""
        if isinstance(step, CommitOffsetsStep):
            # With version 2 this alone may have opened the transaction, even if the response is lost.
            self.started = True

    def added(self, step: Step) -> None:
        """Note that a step succeeded."""
        self.started = True
        self.may_be_unknown = False
        if isinstance(step, AddPartitionsStep):
            self._partitions.update(step.partitions)
        elif isinstance(step, AddOffsetsStep):
            self._groups.add(step.added_group)
        call = self._calls.pop(step, None)
        if call is not None:
            call.end()

    def gives_up(self, step: Step) -> bool:
        """Return whether a step without success is not retried when the transaction is to be aborted."""
        # The coordinator must know what may have been added, because with version 1 it refuses to end a transaction
        # that it did not begin. A partition of a deleted topic may be dropped, because it has no records.
        gives_up = (
            isinstance(step, CommitOffsetsStep)
            or not step.lost
            or isinstance(step.last_error, UnknownTopicOrPartitionError)
        )
        if gives_up:
            self.failed(step)
        return gives_up

    def failed(self, step: Step) -> None:
        """Note that a step is not retried. An attempt without a response may have begun the transaction."""
        self.needs_epoch |= step.lost
        if step.lost and not self.started:
            self.started = self.may_be_unknown = True

    def drop(self, error: KafkaError | None) -> None:
        """Add nothing more: the calls that wait for it fail."""
        self._new.clear()
        self._offsets.clear()
        for call in self._calls.values():
            call.end(error)
        self._calls.clear()
