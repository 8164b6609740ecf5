"""The buffer of unsent records: a queue of batches per partition, with one limit of memory.

`send` appends here in the calling thread; the sender takes batches away on the network thread. This is the pure twin,
guarded by a lock; the compiled one in `_hot` has the same names and is guarded by the GIL. Both append a record in one
call if nothing is missing, and leave everything that may wait or runs the application's code to `core`.
"""

from __future__ import annotations

import random
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kclient._misuse import is_plain_callback
from kclient.producer.batch import ProducerBatch
from kclient.producer.batch_sizer import REQUEST
from kclient.producer.future import RecordFuture
from kclient.producer.rows_future import Placement
from kclient.records import ArrowRows, murmur2
from kclient.records.batch import BATCH_OVERHEAD, HEADER_OVERHEAD, RECORD_OVERHEAD
from kclient.types import GivenHeaders

OnDelivery = Callable[..., None]
"""Called with (RecordMetadata, None) or (None, error)."""

STICKY_BYTES = 65_536
"""Records without a key stay on a partition for at least this many bytes, and while its batch is open."""


def plain_headers_size(headers: Any) -> int:
    """Return the maximum size of headers; -1 if they cannot be encoded, or only by running the application's code."""
    if type(headers) is not tuple and type(headers) is not list:
        return -1
    size = 0
    for item in headers:
        if type(item) is not tuple or len(item) != 2 or type(item[0]) is not str:
            return -1
        if item[1] is not None and type(item[1]) is not bytes:
            return -1
        try:
            size += HEADER_OVERHEAD + len(item[0].encode()) + len(item[1] or b"")
        except UnicodeEncodeError:
            return -1
    return size


class PartitionQueue:
    """The batches of one partition: one open for records, and those that are full or due again, in order.

    `entry`, `drained`, `in_flight`, `batch_limit` and `target` belong to the sender: the sequence state, the number of
    batches taken and of those in flight, the maximum size of a batch, and its target size.
    """

    __slots__ = (
        "active",
        "batch",
        "batch_limit",
        "builder",
        "drained",
        "entry",
        "in_flight",
        "lock",
        "partition",
        "ready",
        "target",
        "topic",
    )

    def __init__(self, topic: str, partition: int, lock: Any, batch_limit: int) -> None:
        self.topic = topic
        self.partition = partition
        self.lock = lock
        self.batch: ProducerBatch | None = None
        self.builder: Any = None
        self.ready: deque[ProducerBatch] = deque()
        self.active = False
        self.entry: Any = None
        self.drained = 0
        self.in_flight = 0
        self.batch_limit = batch_limit
        self.target = min(batch_limit, REQUEST)

    def size(self) -> int:
        """Return the number of waiting batches."""
        return len(self.ready) + (self.batch is not None)

    def open_since(self) -> float:
        """Return when the first record of the open batch was appended (driver's clock); -1.0 without one."""
        with self.lock:
            batch = self.batch
            return -1.0 if batch is None or not self.builder.count else batch.created

    def seal(self) -> bool:
        """Move the open batch to the full ones; return False if it has no records."""
        with self.lock:
            if self.batch is None or not self.builder.count:
                return False
            self._roll()
            return True

    def _roll(self) -> None:
        assert self.batch is not None
        self.ready.append(self.batch)
        self.batch = self.builder = None

    def rest(self) -> bool:
        """Become inactive if nothing is left; the next record makes it active again."""
        with self.lock:
            if self.ready or self.batch is not None:
                return False
            self.active = False
            return True


class TopicQueue:
    """The partitions of one topic, and the sticky choice among them (KIP-794).

    `retired` means that the topic was dropped: a thread that still holds this object must look it up again.
    """

    def __init__(self, topic: str, sticky_bytes: int, seed: int) -> None:
        self.topic = topic
        self.partitions: list[PartitionQueue] = []
        self.sticky = -1
        self.retired = False
        self.used_at = 0.0
        self._sticky_bytes = 0
        self._sticky_limit = sticky_bytes
        self._random = random.Random(seed).random
        self._choices: Sequence[int] = ()
        self._weights: Sequence[int] | None = None

    def offer(self, choices: Sequence[int], weights: Sequence[int] | None = None) -> None:
        """Set the partitions to choose from.

        Parameters:
            choices: partitions that have leaders; all are used if none has.
            weights: cumulative weights; None for equal ones.
        """
        self._weights = None
        self._choices = choices
        self._weights = weights

    def next_partition(self) -> int:
        """Make another choice."""
        choices, weights = self._choices, self._weights
        if not choices:
            self.sticky = self._below(len(self.partitions))
        elif weights is not None and len(weights) == len(choices):
            self.sticky = choices[bisect_right(weights, self._below(weights[-1]))]
        else:
            self.sticky = choices[self._below(len(choices))]
        self._sticky_bytes = 0
        return self.sticky

    def _below(self, limit: int) -> int:
        # The same as in the compiled twin, so that both make the same choices with the same seed.
        return int(self._random() * limit)

    def current_partition(self) -> int:
        """Return the partition for the next record without a key."""
        sticky = self.sticky
        if sticky < 0 or sticky >= len(self.partitions):
            return self.next_partition()
        # A batch is never left half full: the choice changes between two batches.
        if self._sticky_bytes >= self._sticky_limit and self.partitions[sticky].batch is None:
            return self.next_partition()
        return sticky

    def count_bytes(self, size: int) -> None:
        """Add to the bytes that went to the current choice."""
        self._sticky_bytes += size


class Accumulator:
    """The queues of all topics.

    Parameters:
        new_batch: makes an empty batch for a partition's queue; runs outside the critical section.
        wake: wakes the network thread.
        buffer_memory, batch_size, max_request_size: bytes, as configured.
        linger: seconds that a batch waits for more records.
        time_ms: milliseconds since the epoch, of records without a timestamp.
        ignore_keys: ignore keys when choosing partitions.
        seed: the seed of the choices.

    Attributes:
        usable: False makes every append return None: closed, failed, forked.
        plain: whether `send` runs no code of the application (no serializers, interceptors, custom partitioner).
        used: bytes of records without a result.
        blocked: the calls that wait for memory.
        sleeping_until: when the sender checks again by itself; a record that is due earlier wakes it.
    """

    def __init__(
        self,
        new_batch: Callable[[PartitionQueue], ProducerBatch],
        wake: Callable[[], None],
        *,
        buffer_memory: int,
        batch_size: int,
        max_request_size: int,
        linger: float,
        time_ms: Callable[[], int],
        ignore_keys: bool = False,
        plain: bool = True,
        seed: int = 0,
    ) -> None:
        self.lock = threading.Lock()
        self.topics: dict[str, TopicQueue] = {}
        self.usable = True
        self.plain = plain
        self.buffer_memory = buffer_memory
        self.used = 0
        self.blocked: set[Any] = set()
        self.sleeping_until = float("inf")
        self._new_batch = new_batch
        self._wake = wake
        self._batch_size = batch_size
        self._largest = min(max_request_size, buffer_memory) - RECORD_OVERHEAD
        self._linger = linger
        self._time_ms = time_ms
        self._ignore_keys = ignore_keys
        self._random = random.Random(seed)
        self._fresh: list[PartitionQueue] = []

    # -- the application's side

    def try_append(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture | None:
        """Append a record if nothing is missing.

        Parameters:
            value, key: bytes or None.
            headers: pairs of str and bytes or None, or nothing.
            on_delivery: called with the result.

        Returns:
            Its future; None if the topic or partition is unknown, memory is full, a value is not plain bytes or is
            too large, on_delivery is not a plain function, or the producer is unusable: `core` determines which.
        """
        queue = self.topics.get(topic)
        key_size = -1 if key is None else len(key) if type(key) is bytes else -2
        value_size = -1 if value is None else len(value) if type(value) is bytes else -2
        size = key_size + value_size
        if queue is None or not queue.partitions or key_size == -2 or value_size == -2:
            return None
        if headers:
            headers_size = plain_headers_size(headers)
            if headers_size < 0:
                return None
            size += headers_size
        if size > self._largest or not (on_delivery is None or is_plain_callback(on_delivery)):
            return None
        if timestamp is None:
            timestamp = self._time_ms()
        elif timestamp < 0:
            return None
        if partition is None and key is not None and not self._ignore_keys:
            partition = (murmur2(key) & 0x7FFFFFFF) % len(queue.partitions)
        rolled = False
        spare: ProducerBatch | None = None
        while True:
            with self.lock:
                target = self._target(queue, partition, size)
                if target is None:
                    return None
                if target.batch is None and spare is not None and spare.queue is target:
                    target.batch, target.builder = spare, spare.builder
                    self.used += BATCH_OVERHEAD
                batch = target.batch
                if batch is not None:
                    before = target.builder.size_in_bytes
                    index = target.builder.append(timestamp, key, value, headers)
                    if index >= 0:
                        self._count(queue, target, target.builder.size_in_bytes - before, partition is None)
                        future = RecordFuture(batch.result, index, timestamp, key_size, value_size)
                        if on_delivery is not None:
                            batch.result.deliveries += (future, on_delivery)
                        break
                    target._roll()
                    rolled = True
            spare = self._new_batch(target)
        if rolled or (index == 0 and batch.created + self._linger < self.sleeping_until):
            self._wake()
        return future

    def _target(self, queue: TopicQueue, partition: int | None, size: int) -> PartitionQueue | None:
        # Checked here, so that no record is appended that the end of a transaction does not wait for.
        if not self.usable or queue.retired or self.used + size + RECORD_OVERHEAD > self.buffer_memory:
            return None
        number = queue.current_partition() if partition is None else partition
        return queue.partitions[number] if 0 <= number < len(queue.partitions) else None

    def _count(self, queue: TopicQueue, target: PartitionQueue, grown: int, sticky: bool) -> None:
        self.used += grown
        if sticky:
            queue.count_bytes(grown)
        if not target.active:
            target.active = True
            self._fresh.append(target)

    def append_rows(self, rows: ArrowRows, placement: Placement, start: int, stop: int) -> int:
        """Append rows of Arrow data until something is missing.

        Parameters:
            rows: the rows; their `largest` was checked.
            placement: receives the batch of each row.
            start, stop: the first of the rows, and the one after the last.

        Returns:
            The row that could not be appended, as `try_append` could not; `stop` if all were.
        """
        for row in range(start, stop):
            topic, value, key, headers, partition, timestamp = rows.record(row)
            future = self.try_append(topic, value, key, headers, partition, timestamp)
            if future is None:
                return row
            placement.add(rows.first + row, future._result, future.index)
        return stop

    # -- the sender's side

    def add_topic(self, topic: str, partitions: int) -> TopicQueue:
        """Add a topic's partitions, or further ones."""
        with self.lock:
            queue = self.topics.get(topic)
            if queue is None:
                queue = TopicQueue(topic, min(self._batch_size, STICKY_BYTES), self._random.getrandbits(32))
                self.topics[topic] = queue
            new = range(len(queue.partitions), partitions)
            limit = self._batch_size
            # Fewer than before: the topic was deleted and created again.
            queue.partitions = queue.partitions[:partitions] + [
                PartitionQueue(topic, number, self.lock, limit) for number in new
            ]
            return queue

    def remove_topic(self, topic: str) -> bool:
        """Drop a topic without waiting batches; return False if it has some."""
        with self.lock:
            queue = self.topics[topic]
            if any(target.active for target in queue.partitions):
                return False
            queue.retired = True
            del self.topics[topic]
            return True

    def release(self, size: int) -> None:
        """Free this many bytes (negative: take)."""
        with self.lock:
            self.used -= size

    def take_fresh(self) -> list[PartitionQueue]:
        """Return the queues that received records since they were last empty."""
        with self.lock:
            fresh, self._fresh = self._fresh, []
            return fresh


class SendPath:
    """The base of the blocking producer, so that `send` is one call into the accumulator."""

    _accumulator: Accumulator

    def _set_accumulator(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Send a record: add it to a batch, which is sent when it is full or linger_ms has passed.

        Parameters:
            topic: the topic; its metadata is looked up on first use, which may take a moment.
            value: what the value serializer takes; bytes or None without a serializer.
            key: what the key serializer takes; bytes or None without a serializer.
            headers: pairs of str and bytes or None.
            partition: the partition; None lets the partitioner choose.
            timestamp: milliseconds since the epoch; the current time by default.
            on_delivery: called with (RecordMetadata, None) or (None, error) in the producer's callback thread.

        Returns:
            A future whose `result()` is the record's RecordMetadata. The call waits up to max_block_ms for buffer
            memory and for the topic's metadata, and does not wait for delivery.

        Raises:
            SerializationError: a serializer failed; nothing was sent.
            TypeError: a key, value or header is not bytes-like, without a serializer; on_delivery cannot be
                called or is a coroutine function; an interceptor returned no record.
            RecordTooLargeError: the record is larger than max_request_size or buffer_memory.
            BufferExhaustedError: buffer_memory stayed full for max_block_ms.
            RecordNotAcceptedError: the metadata of the topic was not received within max_block_ms.
            UnknownTopicOrPartitionError: the topic or partition does not exist.
            InvalidTopicError: the name of the topic is not valid.
            TopicAuthorizationError: the client may not write to the topic.
            IllegalStateError: the producer has a transactional_id, and no transaction is open.
            ClosedError: the producer is closed.
            ForkError: the producer was made before this process was forked.
            KafkaError: the error that ended the producer or its transaction.
        """
        if self._accumulator.plain:
            future = self._accumulator.try_append(topic, value, key, headers, partition, timestamp, on_delivery)
            if future is not None:
                return future
        return self._send_slowly(topic, value, key, headers, partition, timestamp, on_delivery)

    def _send_slowly(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: GivenHeaders,
        partition: int | None,
        timestamp: int | None,
        on_delivery: OnDelivery | None,
    ) -> RecordFuture:
        raise NotImplementedError
