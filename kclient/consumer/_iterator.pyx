# cython: language_level=3, boundscheck=False, wraparound=False
"""Iteration over a consumer, compiled: Python is entered once per chunk of records, not per record.

The twin in plain Python, with the same names, is `iterator`.
"""

cimport cython
from cpython.ref cimport Py_DECREF, PyObject


cdef extern from "Python.h":
    PyObject* PyIter_Next(object iterator) except? NULL


cdef class RecordIterator:
    """Records of one chunk after the other; an exception of `refill` ends nothing: the next call goes on.

    Parameters:
        refill: returns an iterator over the next chunk; waits for it.

    Attributes:
        last: the record handed out last of the current chunk, None before the first.
    """

    cdef object _refill
    cdef object _active
    cdef readonly object last

    def __init__(self, refill):
        self._refill = refill
        self._active = None
        self.last = None

    def __iter__(self):
        return self

    def __next__(self):
        cdef PyObject* record
        while True:
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


cdef class AsyncRecordIterator:
    """The same for `async for`.

    Parameters:
        refill: a coroutine function that waits for the next chunk and returns an iterator over it.
    """

    cdef object _refill
    cdef object _active
    cdef readonly object last

    def __init__(self, refill):
        self._refill = refill
        self._active = None
        self.last = None

    def __aiter__(self):
        return self

    def __anext__(self):
        cdef PyObject* record
        cdef Ready ready
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
