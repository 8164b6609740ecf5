"""Produce requests with acks=all that wait until their records are replicated.

A request waits only if the high watermark of a partition has not passed its records when they are appended; with a
single replica in sync it always has. The response is sent when every partition has a result:

    the high watermark has passed the records      no error; NOT_ENOUGH_REPLICAS_AFTER_APPEND if meanwhile fewer
                                                   replicas are in sync than `min.insync.replicas` requires
    this broker does not lead the partition        NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION or
                                                   KAFKA_STORAGE_ERROR
    the timeout of the request has passed          REQUEST_TIMED_OUT

Records without an acknowledgement stay in the log and may still be replicated. Source: Kafka's DelayedProduce, and
`checkEnoughReplicasReachOffset` of its Partition.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from kclient.errors import KafkaError, NotEnoughReplicasAfterAppendError, NotEnoughReplicasError, RequestTimedOutError
from refbroker.log import PartitionLog
from refbroker.metadata.partitions import Partitions

T = TypeVar("T")


class AwaitedAppend(NamedTuple):
    """Records that were appended to a partition and are not replicated yet.

    Attributes:
        required_offset: the offset after them, which the high watermark must reach.
        complete: called once, with None when the records are replicated, or with the error.
    """

    log: PartitionLog
    required_offset: int
    complete: Callable[[KafkaError | None], None]


class DelayedProduce(Generic[T]):
    """A Produce request that waits.

    Parameters:
        loop: the event loop.
        partitions: the partitions that this broker leads.
        appends: the appends that it waits for.
        timeout_ms: the longest wait, in milliseconds.
        answer: builds the response once all appends are complete.

    Attributes:
        future: the future of the response; cancelling it ends the wait.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        partitions: Partitions,
        appends: Sequence[AwaitedAppend],
        timeout_ms: int,
        answer: Callable[[], T],
    ) -> None:
        self.future: asyncio.Future[T] = loop.create_future()
        self._partitions = partitions
        self._answer = answer
        self._pending = list(appends)
        self._watched: dict[PartitionLog, None] = {}
        for append in appends:
            self._watch(append.log)
        self._timer = loop.call_later(timeout_ms / 1000, self._time_out)
        self.future.add_done_callback(self._forget)

    def _advanced(self, log: PartitionLog) -> None:
        # Many requests may wait for a log whose high watermark moves in small steps.
        if any(each.log is log and each.required_offset <= log.high_watermark for each in self._pending):
            self.check(log)

    def check(self, log: PartitionLog) -> None:
        """Complete the appends to a log that have a result now, and respond when none is pending."""
        if self.future.done():
            return
        remaining = [each if each.log is not log else self._remaining(each) for each in self._pending]
        self._pending = [append for append in remaining if append is not None]
        if not self._pending:
            self.future.set_result(self._answer())

    def _remaining(self, append: AwaitedAppend) -> AwaitedAppend | None:
        """Complete an append if it has a result; else return it with the current log of its partition."""
        log = append.log
        try:
            found = self._partitions.find(log.topic, log.partition)
            if found.log.high_watermark < append.required_offset:
                if found.log is not log:
                    # A log that was moved to another directory has the same records.
                    self._watch(found.log)
                return append._replace(log=found.log)
            self._partitions.check_in_sync(found)
        except NotEnoughReplicasError as error:
            append.complete(NotEnoughReplicasAfterAppendError(error.message, topic=log.topic, partition=log.partition))
        except KafkaError as error:
            append.complete(error)
        else:
            append.complete(None)
        return None

    def _watch(self, log: PartitionLog) -> None:
        if log not in self._watched:
            self._watched[log] = None
            log.on_high_watermark.append(self._advanced)

    def _time_out(self) -> None:
        if self.future.done():
            return
        for append in self._pending:
            log = append.log
            append.complete(
                RequestTimedOutError(
                    f"the records before offset {append.required_offset} were not replicated in time",
                    topic=log.topic,
                    partition=log.partition,
                )
            )
        self._pending = []
        self.future.set_result(self._answer())

    def _forget(self, future: asyncio.Future[T]) -> None:
        self._timer.cancel()
        for log in self._watched:
            log.on_high_watermark.remove(self._advanced)


class DelayedProduces:
    """All Produce requests that wait.

    Parameters:
        loop: the event loop.
        partitions: the partitions that this broker leads.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, partitions: Partitions) -> None:
        self._loop = loop
        self._partitions = partitions
        # A dict keeps the order of arrival; the order of a set would differ from run to run.
        self._waiting: dict[DelayedProduce[Any], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[DelayedProduce[Any]]:
        return iter(self._waiting)

    def wait(self, appends: Sequence[AwaitedAppend], timeout_ms: int, answer: Callable[[], T]) -> asyncio.Future[T]:
        """Return the future of a new `DelayedProduce`, which has the same parameters."""
        produce = DelayedProduce(self._loop, self._partitions, appends, timeout_ms, answer)
        self._waiting[produce] = None
        produce.future.add_done_callback(lambda _: self._waiting.pop(produce, None))
        return produce.future

    def check(self, log: PartitionLog) -> None:
        """Complete the appends to a log that have a result after it was deleted or replaced, or has a new leader."""
        for produce in list(self._waiting):
            produce.check(log)

    def close(self) -> None:
        """Cancel all waiting requests without responses."""
        for produce in list(self._waiting):
            produce.future.cancel()
