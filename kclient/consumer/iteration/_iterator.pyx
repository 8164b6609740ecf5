# cython: language_level=3, boundscheck=False, wraparound=False
"""Iteration over a consumer, compiled: Python is entered once per chunk of records, not per record.

The twin in plain Python, with the same names, is `iterator`.
"""

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject


cdef extern from "Python.h":
    ctypedef enum PySendResult:
        PYGEN_RETURN
    ctypedef PyObject* (*iternextfunc)(PyObject*) noexcept
    ctypedef PySendResult (*sendfunc)(PyObject*, PyObject*, PyObject**) noexcept
    ctypedef struct PyAsyncMethods:
        sendfunc am_send
    ctypedef struct PyTypeObject:
        PyAsyncMethods* tp_as_async
        iternextfunc tp_iternext

    PyObject* PyIter_Next(object iterator) except? NULL
    void PyErr_SetObject(object kind, object value)


cdef class RecordIterator:
    """The records of one chunk after the other; after an exception of `refill` the next call continues.

    Parameters:
        refill: waits for the next chunk and returns an iterator over it.
        leave: called first when iteration was interrupted within a chunk.

    Attributes:
        last: the record handed out last of the current chunk, None before the first.
        interrupted: set, from any thread, to make the next call leave the chunk and enter `refill`.
    """

    cdef object _refill
    cdef object _leave
    cdef object _active
    cdef public bint interrupted
    cdef readonly object last
    cdef object __weakref__

    def __init__(self, refill, leave):
        self._refill = refill
        self._leave = leave
        self._active = None
        self.last = None

    def __iter__(self):
        return self

    def __next__(self):
        cdef PyObject* record
        while True:
            if self.interrupted:
                self.interrupted = False
                self._leave()
            if self._active is not None:
                record = PyIter_Next(self._active)
                if record is not NULL:
                    self.last = <object>record
                    Py_DECREF(<object>record)
                    return self.last
                self._active = None
            records = self._refill()
            self.last = None
            self._active = records

    cpdef drop(self):
        """Forget the rest of the current chunk."""
        self._active = None
        self.last = None


@cython.freelist(8)
cdef class Ready:
    """An awaitable that is done: it gives its record without passing through the event loop."""

    cdef object record

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(self.record)


# A Python-level `raise` for every record would cost more than the record. These two end the await with as little as
# the interpreter allows: 3.11 asks am_send, which needs no exception at all, later versions tp_iternext.
cdef PySendResult send_to_ready(PyObject* self, PyObject* value, PyObject** result) noexcept:
    record = (<Ready>self).record
    Py_INCREF(record)
    result[0] = <PyObject*>record
    return PYGEN_RETURN


cdef PyObject* next_of_ready(PyObject* self) noexcept:
    PyErr_SetObject(StopIteration, (<Ready>self).record)
    return NULL


cdef void set_slots():
    cdef PyTypeObject* ready = <PyTypeObject*>Ready
    ready.tp_iternext = next_of_ready
    if ready.tp_as_async is not NULL:
        ready.tp_as_async.am_send = send_to_ready


set_slots()


cdef class AsyncRecordIterator:
    """The same for `async for`.

    Parameters:
        refill: a coroutine function that waits for the next chunk and returns an iterator over it.
        leave: called first when iteration was interrupted within a chunk.
    """

    cdef object _refill
    cdef object _leave
    cdef object _active
    cdef public bint interrupted
    cdef readonly object last
    cdef object __weakref__

    def __init__(self, refill, leave):
        self._refill = refill
        self._leave = leave
        self._active = None
        self.last = None

    def __aiter__(self):
        return self

    def __anext__(self):
        cdef PyObject* record
        cdef Ready ready
        if self.interrupted:
            self.interrupted = False
            self._leave()
        if self._active is not None:
            record = PyIter_Next(self._active)
            if record is not NULL:
                self.last = <object>record
                Py_DECREF(<object>record)
                ready = Ready.__new__(Ready)
                ready.record = self.last
                return ready
            self._active = None
        return self._next_chunk()

    async def _next_chunk(self):
        while True:
            records = await self._refill()
            self.last = None
            for record in records:
                self._active = records
                self.last = record
                return record

    cpdef drop(self):
        """Forget the rest of the current chunk."""
        self._active = None
        self.last = None
