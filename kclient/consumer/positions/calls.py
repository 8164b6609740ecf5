"""The positions of a consumer: seeking, reading and looking them up, and pausing partitions.

The calls are operations; see `core`. Elsewhere: the state of a partition (`partition_state`), and committed offsets
(`committed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from kclient._offsets import checked_partition, checked_partitions
from kclient.config import ConsumerConfig
from kclient.consumer.assignment.reset import EARLIEST, LATEST, ResetPolicy
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.iteration.current_chunk import Iteration
from kclient.consumer.positions.leaders import why_missing
from kclient.consumer.positions.list_offsets import Lookup, OffsetsManager
from kclient.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from kclient.net.engine import Engine
from kclient.net.operation import Operation, Pause, Result
from kclient.types import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition


class PositionCalls:
    """The positions of one consumer.

    Parameters:
        config: its options.
        engine: its network thread.
        subscription: the assigned partitions.
        iteration: the application's place within a chunk.
        offsets: looks up offsets.
        leave_iteration: ends the iteration's chunk, because another call follows.
        begin_call: see `AppThread.begin_call`; may raise.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        engine: Engine,
        subscription: Subscription,
        iteration: Iteration,
        offsets: OffsetsManager,
        *,
        leave_iteration: Callable[[], None],
        begin_call: Callable[[], None],
    ) -> None:
        self._reads_committed = config.reads_committed
        self._engine = engine
        self._subscription = subscription
        self._iteration = iteration
        self._offsets = offsets
        self._leave_iteration = leave_iteration
        self._begin_call = begin_call

    def seek(self, tp: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Set the position to an offset."""
        partition = checked_partition(tp)
        epoch = -1
        if isinstance(offset, OffsetAndMetadata):
            epoch = -1 if offset.leader_epoch is None else offset.leader_epoch
            offset = offset.offset
        if offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset}")
        self._leave_iteration()
        self._subscription.seek(partition, offset, epoch)

    def seek_by(self, partitions: Iterable[tuple[str, int]], policy: ResetPolicy) -> None:
        """Set the positions to the beginning or the end; those of all assigned partitions if none is given."""
        chosen = checked_partitions(partitions) or list(self._subscription.partitions)
        if not chosen:
            raise IllegalStateError("no partition is assigned yet: name the partitions, or poll() first")
        self._leave_iteration()
        for tp in chosen:
            self._subscription.request_reset(tp, policy)

    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]]) -> None:
        """See `seek_by`."""
        self.seek_by(partitions, EARLIEST)

    def seek_to_end(self, partitions: Iterable[tuple[str, int]]) -> None:
        """See `seek_by`."""
        self.seek_by(partitions, LATEST)

    def position(self, tp: tuple[str, int], timeout: float, *, shared: bool = False) -> Operation[int]:
        """Return the offset of the next record.

        Parameters:
            tp: the partition.
            timeout: seconds.
            shared: whether another task polls, which starts partitions and raises interruptions.
        """
        tp = checked_partition(tp)
        deadline = self._engine.clock() + timeout
        while True:
            if shared:
                self._engine.check_usable()
            else:
                self._begin_call()
            place = self._iteration.place()
            if place is not None and place.state.tp == tp:
                return place.reached.offset
            with self._subscription.buffer.lock:
                state = self._subscription.state(tp)
                if state.position is not None:
                    return state.position.offset
                self._subscription.buffer.waiting = True
            now = self._engine.clock()
            if now >= deadline:
                raise self._position_unknown(tp, timeout)
            yield Pause(deadline - now)

    def _position_unknown(self, tp: TopicPartition, timeout: float) -> KafkaError:
        metadata = self._engine.metadata
        error = why_missing(metadata, tp)
        if error is not None:
            return error.with_traceback(None)
        because = f"; the last error: {metadata.last_error}" if metadata.last_error is not None else ""
        return KafkaTimeoutError(
            f"the position was unknown after {timeout:g} s{because}", topic=tp.topic, partition=tp.partition
        )

    def lookup(
        self, targets: Mapping[TopicPartition, int], timeout: float
    ) -> Operation[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Return by partition an OffsetAndTimestamp, or None without one."""
        self._engine.check_usable()
        lookup = Lookup(dict(targets), timeout)
        self._engine.submit(lambda: self._offsets.add(lookup))
        found: dict[TopicPartition, OffsetAndTimestamp | None] = yield self._ends_itself(lookup.future, timeout)
        return found

    def special_offsets(
        self, partitions: Iterable[tuple[str, int]], policy: ResetPolicy, timeout: float
    ) -> Operation[dict[TopicPartition, int]]:
        """Return by partition its first or its end offset."""
        timestamp = policy.timestamp(0)
        found = yield from self.lookup(dict.fromkeys(checked_partitions(partitions), timestamp), timeout)
        return {tp: 0 if answer is None else answer.offset for tp, answer in found.items()}

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return no records of these partitions."""
        chosen = checked_partitions(partitions)
        self._leave_iteration()
        self._subscription.pause(chosen)

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Undo `pause`."""
        self._subscription.resume(checked_partitions(partitions))

    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        with self._subscription.lock:
            return {tp for tp, state in self._subscription.partitions.items() if state.paused}

    def current_lag(self, tp: tuple[str, int]) -> int | None:
        """Return the number of offsets between position and end, as of the last response; None while no broker is
        reachable.
        """
        partition = checked_partition(tp)
        if self._engine.is_unreachable:
            return None
        with self._subscription.lock:
            state = self._subscription.state(partition)
            return state.lag(self._reads_committed)

    def _ends_itself(self, future: Future[Any], timeout: float) -> Result:
        """Wait for a future that the network thread completes within this time, plus a margin for a busy thread."""
        return Result(future, self._engine.clock() + timeout + 1.0)
