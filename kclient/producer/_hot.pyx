# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled twin of `accumulator` and of `future.RecordFuture`: what `send` does for every record.

One call appends a record and returns its future; another appends rows of Arrow data. The GIL is the lock: between
reading a queue and counting the record no Python code runs and nothing is allocated that could start the garbage
collector, so no other thread can interfere. Encoding headers creates a list, so the collector is disabled for that time.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.function cimport PyFunction_Check, PyFunction_GetCode
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from cpython.method cimport PyMethod_Check, PyMethod_GET_FUNCTION
from cpython.object cimport PyCallable_Check
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t

from kclient.producer._clock cimport kclient_clock, kclient_recent_ms
from kclient.records._builder cimport BatchBuilder, murmur2_c
from kclient.records._handover cimport step_aside
from kclient.records._rows cimport ArrowRows, binary, number32, number64

import random
from bisect import bisect_right
from collections import deque

from kclient.producer import accumulator as _pure
from kclient.producer import future as _future
from kclient.net.runtime import system_time_ms
from kclient.records import batch as _batch

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)
    void PyErr_Clear()
    ctypedef struct PyCodeObject:
        int co_flags
    enum: CO_COROUTINE

cdef enum:
    HANDOVER_BYTES = 65536

# A record on its way into a batch: what it consists of (-1 is the size of null, and a partition that the queue chooses;
# headers, if not NULL, are encoded already; their size is the most they take), then its index there, what it added in
# bytes, and whether another batch was full before it.
cdef struct Draft:
    const char* key
    Py_ssize_t key_size
    const char* value
    Py_ssize_t value_size
    const char* headers
    Py_ssize_t headers_size
    int64_t when
    int32_t partition
    int32_t index
    Py_ssize_t grown
    bint rolled

cdef Py_ssize_t BATCH_OVERHEAD = _batch.BATCH_OVERHEAD
cdef Py_ssize_t RECORD_OVERHEAD = _batch.RECORD_OVERHEAD
cdef Py_ssize_t HEADER_OVERHEAD = _batch.HEADER_OVERHEAD
cdef int STICKY_BYTES = _pure.STICKY_BYTES
cdef Py_ssize_t REQUEST = _pure.REQUEST
cdef object NO_TOPIC = object()


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class RecordFuture:
    """The result of one `send`; it resolves when the record's batch is delivered or fails.

    Await it, or call `result`. Reading the result, also in a callback, marks a failure as seen; `flush` and `close`
    raise the failures that nobody has seen.

    Attributes:
        timestamp: the timestamp of the record, in milliseconds since the epoch.
    """

    # Not tracked by the garbage collector: a batch drops its callbacks, and so its futures, when it has a result.
    cdef readonly object _result
    cdef readonly int64_t timestamp
    cdef readonly int32_t index
    cdef readonly int32_t key_size
    cdef readonly int32_t value_size

    def __init__(self, result, int32_t index, int64_t timestamp, int32_t key_size, int32_t value_size):
        self._result = result
        self.index = index
        self.timestamp = timestamp
        self.key_size = key_size
        self.value_size = value_size

    @property
    def topic(self):
        """The topic of the record."""
        return self._result.topic

    @property
    def partition(self):
        """The partition of the record."""
        return self._result.partition

    def done(self):
        """Return whether the record was delivered or failed."""
        return _future.done(self)

    def result(self, timeout=None):
        return _future.result(self, timeout)

    def exception(self, timeout=None):
        return _future.exception(self, timeout)

    def add_done_callback(self, callback):
        self._result.add_callback(self, callback)

    def __await__(self):
        return _future.await_result(self).__await__()

    def __repr__(self):
        return _future.describe(self)


cdef bint is_plain_callback(object callback):
    """See `kclient._misuse.is_plain_callback`."""
    if PyMethod_Check(callback):
        callback = <object>PyMethod_GET_FUNCTION(callback)
    if PyFunction_Check(callback):
        return not (<PyCodeObject*>PyFunction_GetCode(callback)).co_flags & CO_COROUTINE
    return PyCallable_Check(callback)


cdef Py_ssize_t plain_headers_size(object headers):
    cdef Py_ssize_t index, count, length
    cdef Py_ssize_t size = 0
    cdef PyObject* item
    cdef PyObject* value
    cdef bint is_tuple = PyTuple_CheckExact(headers)
    if not is_tuple and not PyList_CheckExact(headers):
        return -1
    count = PyTuple_GET_SIZE(headers) if is_tuple else PyList_GET_SIZE(headers)
    for index in range(count):
        item = <PyObject*>PyTuple_GET_ITEM(headers, index) if is_tuple else <PyObject*>PyList_GET_ITEM(headers, index)
        if not PyTuple_CheckExact(<object>item) or PyTuple_GET_SIZE(<object>item) != 2:
            return -1
        if not PyUnicode_CheckExact(<object>PyTuple_GET_ITEM(<object>item, 0)):
            return -1
        if PyUnicode_AsUTF8AndSize(<object>PyTuple_GET_ITEM(<object>item, 0), &length) == NULL:
            PyErr_Clear()
            return -1
        size += HEADER_OVERHEAD + length
        value = <PyObject*>PyTuple_GET_ITEM(<object>item, 1)
        if <object>value is not None:
            if not PyBytes_CheckExact(<object>value):
                return -1
            size += PyBytes_GET_SIZE(<object>value)
    return size


cdef int put_with_headers(
    BatchBuilder builder, int64_t when, const char* key, Py_ssize_t key_size, const char* value,
    Py_ssize_t value_size, object headers,
) except -2:
    cdef int collecting = PyGC_Disable()
    try:
        return builder.append_c(when, key, key_size, value, value_size, headers)
    finally:
        if collecting:
            PyGC_Enable()


@cython.final
cdef class PartitionQueue:
    """See `kclient.producer.accumulator.PartitionQueue`."""

    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly object batch
    cdef object result
    cdef readonly BatchBuilder builder
    cdef readonly object ready
    cdef readonly bint active
    cdef public object entry
    cdef public int64_t drained
    cdef public int in_flight
    cdef public Py_ssize_t batch_limit
    cdef public Py_ssize_t target
    # Where the last row of Arrow data went: whose ticket, in which run of its, and the index of the record after it.
    cdef int64_t ticket
    cdef int32_t run
    cdef int32_t next_index

    def __init__(self, str topic, int32_t partition, Py_ssize_t batch_limit):
        self.topic = topic
        self.partition = partition
        self.ready = deque()
        self.batch_limit = batch_limit
        self.target = min(batch_limit, REQUEST)

    def size(self):
        return len(self.ready) + (self.batch is not None)

    def open_since(self):
        if self.batch is None or self.builder.count == 0:
            return -1.0
        return self.batch.created

    def seal(self):
        if self.batch is None or self.builder.count == 0:
            return False
        self.roll()
        return True

    cdef int roll(self) except -1:
        self.ready.append(self.batch)
        self.batch = None
        self.result = None
        self.builder = None
        self.ticket = 0
        return 0

    def rest(self):
        if self.ready or self.batch is not None:
            return False
        self.active = False
        return True


@cython.final
cdef class TopicQueue:
    """See `kclient.producer.accumulator.TopicQueue`."""

    cdef readonly str topic
    cdef readonly list partitions
    cdef readonly int32_t sticky
    cdef readonly bint retired
    cdef public double used_at
    cdef int64_t sticky_bytes
    cdef int64_t sticky_limit
    # A method in C: no other thread can interfere while it runs.
    cdef object random
    cdef object choices
    cdef object weights

    def __init__(self, str topic, int64_t sticky_bytes, seed):
        self.topic = topic
        self.partitions = []
        self.sticky = -1
        self.sticky_limit = sticky_bytes
        self.random = random.Random(seed).random
        self.choices = ()

    def offer(self, choices, weights=None):
        self.weights = None
        self.choices = tuple(choices)
        self.weights = None if weights is None else tuple(weights)

    cdef int64_t below(self, int64_t limit) except -1:
        return <int64_t>(<double>self.random() * limit)

    cpdef int32_t next_partition(self) except -2:
        cdef tuple choices = self.choices
        cdef object weights = self.weights
        if len(choices) == 0:
            self.sticky = self.below(len(self.partitions))
        elif weights is not None and len(weights) == len(choices):
            self.sticky = choices[bisect_right(weights, self.below(weights[len(choices) - 1]))]
        else:
            self.sticky = choices[self.below(len(choices))]
        self.sticky_bytes = 0
        return self.sticky

    cpdef int32_t current_partition(self) except -2:
        if self.sticky < 0 or self.sticky >= len(self.partitions):
            return self.next_partition()
        if self.sticky_bytes >= self.sticky_limit:
            if (<PartitionQueue>self.partitions[self.sticky]).batch is None:
                return self.next_partition()
        return self.sticky

    def count_bytes(self, size):
        self.sticky_bytes += size


@cython.final
cdef class Accumulator:
    """See `kclient.producer.accumulator.Accumulator`."""

    cdef readonly dict topics
    cdef public bint usable
    cdef public bint plain
    cdef readonly int64_t buffer_memory
    cdef readonly int64_t used
    cdef readonly set blocked
    cdef public double sleeping_until
    cdef object new_batch
    cdef object wake
    cdef int64_t batch_size
    cdef int64_t largest
    cdef double linger
    cdef bint ignore_keys
    cdef object random
    cdef list fresh
    cdef int64_t since_handover
    # None for the system's clock, which is read here; a simulation's clock is called.
    cdef object time_ms
    cdef kclient_clock clock
    # The str object of the last record and its queue: most loops send to one topic.
    cdef object last_topic
    cdef TopicQueue last_queue

    def __init__(
        self, new_batch, wake, *, int64_t buffer_memory, int64_t batch_size, int64_t max_request_size, double linger,
        time_ms, bint ignore_keys=False, bint plain=True, seed=0,
    ):
        self.topics = {}
        self.usable = True
        self.plain = plain
        self.buffer_memory = buffer_memory
        self.blocked = set()
        self.sleeping_until = float("inf")
        self.new_batch = new_batch
        self.wake = wake
        self.batch_size = batch_size
        self.largest = min(max_request_size, buffer_memory) - RECORD_OVERHEAD
        self.linger = linger
        self.time_ms = None if time_ms is system_time_ms else time_ms
        self.ignore_keys = ignore_keys
        self.random = random.Random(seed)
        self.fresh = []
        self.last_topic = NO_TOPIC

    def try_append(self, topic, value=None, key=None, headers=(), partition=None, timestamp=None, on_delivery=None):
        return self.attempt(topic, value, key, headers, partition, timestamp, on_delivery)

    cdef RecordFuture attempt(
        self, object topic, object value, object key, object headers, object partition, object timestamp,
        object on_delivery,
    ):
        cdef PyObject* found
        cdef Draft draft
        cdef bint with_headers
        cdef TopicQueue queue
        if topic is self.last_topic:
            queue = self.last_queue
        else:
            if not PyUnicode_CheckExact(topic):
                return None
            found = PyDict_GetItem(self.topics, topic)
            if found == NULL:
                return None
            queue = <TopicQueue>found
            self.last_topic = topic
            self.last_queue = queue
        draft.key = draft.value = draft.headers = NULL
        draft.key_size = draft.value_size = -1
        draft.headers_size = 0
        draft.partition = -1
        if PyBytes_CheckExact(value):
            draft.value = PyBytes_AS_STRING(value)
            draft.value_size = PyBytes_GET_SIZE(value)
        elif value is not None:
            return None
        if PyBytes_CheckExact(key):
            draft.key = PyBytes_AS_STRING(key)
            draft.key_size = PyBytes_GET_SIZE(key)
        elif key is not None:
            return None
        with_headers = not (headers is None or (PyTuple_CheckExact(headers) and PyTuple_GET_SIZE(headers) == 0))
        if with_headers:
            draft.headers_size = plain_headers_size(headers)
            if draft.headers_size < 0:
                return None
        if (
            draft.key_size + draft.value_size + draft.headers_size > self.largest
            or PyList_GET_SIZE(queue.partitions) == 0
        ):
            return None
        if on_delivery is not None and not is_plain_callback(on_delivery):
            return None
        if timestamp is None:
            draft.when = self.now_ms()
        elif PyLong_CheckExact(timestamp):
            draft.when = timestamp
            if draft.when < 0:
                return None
        else:
            return None
        if partition is not None:
            if not PyLong_CheckExact(partition):
                return None
            draft.partition = partition
            if draft.partition < 0:
                return None
        else:
            self.choose_by_key(queue, &draft)
        return self.put(queue, &draft, headers if with_headers else None, on_delivery)

    cdef inline int64_t now_ms(self) except? -1:
        if self.time_ms is None:
            return kclient_recent_ms(&self.clock)
        return self.time_ms()

    cdef inline void choose_by_key(self, TopicQueue queue, Draft* draft) noexcept:
        if draft.key_size >= 0 and not self.ignore_keys:
            draft.partition = (murmur2_c(draft.key, draft.key_size) & 0x7FFFFFFF) % <uint32_t>PyList_GET_SIZE(
                queue.partitions
            )

    cdef RecordFuture put(self, TopicQueue queue, Draft* draft, object headers, object on_delivery):
        cdef list deliveries
        cdef RecordFuture future
        cdef PartitionQueue target = self.place(queue, draft, headers)
        if target is None:
            return None
        future = RecordFuture.__new__(RecordFuture)
        future._result = target.result
        future.index = draft.index
        future.timestamp = draft.when
        future.key_size = <int32_t>draft.key_size
        future.value_size = <int32_t>draft.value_size
        if on_delivery is not None:
            # Two items rather than a tuple of them: see the module on what may be allocated here.
            deliveries = future._result.deliveries
            deliveries.append(future)
            deliveries.append(on_delivery)
        self.follow(target.batch, draft)
        return future

    cdef PartitionQueue place(self, TopicQueue queue, Draft* draft, object headers):
        """Append to the open batch of a partition and count it; None if something is missing."""
        cdef PartitionQueue target
        cdef object spare = None
        cdef Py_ssize_t before, size
        cdef int32_t chosen
        draft.rolled = False
        while True:
            # Checked here, so that no record is appended that the end of a transaction does not wait for.
            if not self.usable or queue.retired:
                return None
            size = draft.key_size + draft.value_size + draft.headers_size + RECORD_OVERHEAD
            if self.used + size > self.buffer_memory:
                return None
            chosen = queue.current_partition() if draft.partition < 0 else draft.partition
            if chosen >= PyList_GET_SIZE(queue.partitions):
                return None
            target = <PartitionQueue>PyList_GET_ITEM(queue.partitions, chosen)
            if target.batch is None:
                if spare is None or spare.queue is not target:
                    spare = self.new_batch(target)
                    continue
                target.builder = spare.builder
                target.result = spare.result
                target.batch = spare
                self.used += BATCH_OVERHEAD
            before = target.builder.size
            if draft.headers != NULL:
                draft.index = target.builder.put(
                    draft.when, draft.key, draft.key_size, draft.value, draft.value_size, draft.headers,
                    draft.headers_size,
                )
            elif headers is None:
                draft.index = target.builder.append_c(
                    draft.when, draft.key, draft.key_size, draft.value, draft.value_size, None
                )
            else:
                draft.index = put_with_headers(
                    target.builder, draft.when, draft.key, draft.key_size, draft.value, draft.value_size, headers
                )
            if draft.index >= 0:
                break
            target.roll()
            draft.rolled = True
        draft.grown = target.builder.size - before
        self.used += draft.grown
        if draft.partition < 0:
            queue.sticky_bytes += draft.grown
        if not target.active:
            target.active = True
            self.fresh.append(target)
        return target

    cdef inline int follow(self, object batch, Draft* draft) except -1:
        """Wake the network thread after an append, and let it run."""
        if draft.index == 0 or draft.rolled:
            if draft.rolled or batch.created + self.linger < self.sleeping_until:
                self.wake()
        self.since_handover += draft.grown
        if self.since_handover >= HANDOVER_BYTES:
            self.since_handover = 0
            step_aside()
        return 0

    def append_rows(self, ArrowRows rows, placement, Py_ssize_t start, Py_ssize_t stop):
        cdef int64_t ticket = placement.ticket
        cdef uintptr_t address = placement.runs.buffer_info()[0]
        cdef int32_t* runs = <int32_t*>address + rows.first
        cdef list results = placement.results
        cdef list firsts = placement.firsts
        cdef list queues = [self.topics.get(name) for name in rows.names]
        cdef Py_ssize_t row
        cdef TopicQueue queue
        cdef PartitionQueue target
        cdef Draft draft
        draft.key = draft.value = NULL
        for row in range(start, stop):
            queue = queues[number32(&rows.topics, row) if rows.topics.exists else 0]
            if queue is None or PyList_GET_SIZE(queue.partitions) == 0:
                return row
            draft.key_size = binary(&rows.key, row, &draft.key)
            draft.value_size = binary(&rows.value, row, &draft.value)
            draft.headers_size = rows.encoded_headers(row, &draft.headers)
            if draft.key_size + draft.value_size + draft.headers_size > self.largest:
                return row
            draft.when = number64(&rows.timestamps, row)
            if draft.when < 0:
                draft.when = self.now_ms()
            draft.partition = number32(&rows.partitions, row)
            if draft.partition < 0:
                self.choose_by_key(queue, &draft)
            target = self.place(queue, &draft, None)
            if target is None:
                return row
            if target.ticket != ticket or target.next_index != draft.index:
                target.ticket = ticket
                target.run = <int32_t>PyList_GET_SIZE(results)
                results.append(target.result)
                firsts.append(draft.index)
            target.next_index = draft.index + 1
            runs[row] = target.run
            self.follow(target.batch, &draft)
        return stop

    def add_topic(self, str topic, partitions):
        cdef TopicQueue queue = self.topics.get(topic)
        if queue is None:
            queue = TopicQueue(topic, min(self.batch_size, STICKY_BYTES), self.random.getrandbits(32))
        new = range(len(queue.partitions), partitions)
        queue.partitions = queue.partitions[:partitions] + [PartitionQueue(topic, number, self.batch_size) for number in new]
        self.topics[topic] = queue
        return queue

    def remove_topic(self, str topic):
        cdef TopicQueue queue = self.topics[topic]
        cdef PartitionQueue target
        for target in queue.partitions:
            if target.active:
                return False
        queue.retired = True
        del self.topics[topic]
        self.last_topic = NO_TOPIC
        self.last_queue = None
        return True

    def release(self, int64_t size):
        self.used -= size

    def take_fresh(self):
        cdef list fresh = self.fresh
        self.fresh = []
        return fresh


@cython.auto_pickle(False)
cdef class SendPath:
    """See `kclient.producer.accumulator.SendPath`."""

    cdef readonly Accumulator _accumulator

    def _set_accumulator(self, Accumulator accumulator):
        self._accumulator = accumulator

    def send(self, topic, value=None, key=None, headers=(), partition=None, timestamp=None, on_delivery=None):
        cdef RecordFuture future
        if self._accumulator.plain:
            future = self._accumulator.attempt(topic, value, key, headers, partition, timestamp, on_delivery)
            if future is not None:
                return future
        return self._send_slowly(topic, value, key, headers, partition, timestamp, on_delivery)


# The docstrings that `help` shows are those of the pure twins.
for _ours, _theirs in ((SendPath, _pure.SendPath), (RecordFuture, _future.RecordFuture)):
    for _name, _method in vars(_theirs).items():
        if getattr(_method, "__doc__", None) and not _name.startswith("_") and hasattr(_method, "__call__"):
            getattr(_ours, _name).__doc__ = _method.__doc__
            getattr(_ours, _name).__annotations__ = _method.__annotations__
