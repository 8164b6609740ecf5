"""What is counted of requests, by API.

A request's time has four parts, told apart by at most three looks at the clock:

    frame complete --(queue)--> handling --(work)--> answer --(wait)--> answer is due --(response)--> sent

Queue: the frame was there, but a request before it was being handled, or its answer waited for. Work: decoding,
the handler, encoding. Wait: a long poll, the time of a request that was answered at once is not counted.
Response: until the last byte was given to the socket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kclient.protocol import Message, request_type
from kclient.protocol.fields import Type, fields_of
from kclient.protocol.schema import Struct
from refbroker.metrics.histogram import Histogram

ErrorFinder = Callable[[Any, dict[int, int]], None]


class RequestStats:
    """The requests of one API.

    Attributes:
        name: of the API.
        count: how many were handled.
        bytes_in, bytes_out: of requests and of answers, frames with their sizes.
        errors: error codes in answers, at every level (a Produce answer has one for each partition), by number.
        queue, work, wait, response: where the time went.
    """

    __slots__ = (
        "_find_errors",
        "bytes_in",
        "bytes_out",
        "count",
        "errors",
        "name",
        "queue",
        "response",
        "wait",
        "work",
    )

    def __init__(self, request: type[Message]) -> None:
        self.name = request.message_name.removesuffix("Request")
        self.count = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.errors: dict[int, int] = {}
        self.queue = Histogram()
        self.work = Histogram()
        self.wait = Histogram()
        self.response = Histogram()
        self._find_errors = error_finder(request.response_type)

    def handled(self, size: int, queue_ns: int, work_ns: int) -> None:
        """Count a request.

        Parameters:
            size: of the frame, in bytes, without its own size.
            queue_ns, work_ns: how long it waited, and how long it took, in nanoseconds.
        """
        self.count += 1
        self.bytes_in += 4 + size
        self.queue.observe(queue_ns)
        self.work.observe(work_ns)

    def count_errors(self, answer: Message) -> None:
        """Count the error codes in an answer."""
        if self._find_errors is not None:
            self._find_errors(answer, self.errors)


class RequestMetrics:
    """The requests of all APIs; an API appears with its first request."""

    def __init__(self) -> None:
        self._by_key: dict[int, RequestStats] = {}

    def of(self, api_key: int) -> RequestStats:
        """Those of one API."""
        found = self._by_key.get(api_key)
        if found is None:
            found = self._by_key[api_key] = RequestStats(request_type(api_key))
        return found

    def all(self) -> list[RequestStats]:
        """Those of every API that was asked for."""
        return [self._by_key[key] for key in sorted(self._by_key)]


def error_finder(struct: type[Struct]) -> ErrorFinder | None:
    """A function that counts the error codes of a struct and of all within it; None when it has no place for one.

    Made once for each response from its declaration, so that answers are not searched for what cannot be there.
    """
    own = False
    inner: list[tuple[str, bool, ErrorFinder]] = []
    for field in fields_of(struct):
        if field.name == "error_code":
            own = True
            continue
        nested = _struct_of(field.type)
        finder = None if nested is None else error_finder(nested)
        if finder is not None:
            inner.append((field.name, field.type.name == "array", finder))
    if not own and not inner:
        return None
    if own and not inner:
        return _count_own

    def count(value: Any, errors: dict[int, int]) -> None:
        if own:
            _count_own(value, errors)
        for name, many, find in inner:
            found = getattr(value, name)
            if many:
                for one in found or ():
                    find(one, errors)
            elif found is not None:
                find(found, errors)

    return count


def _count_own(value: Any, errors: dict[int, int]) -> None:
    code = value.error_code
    if code:
        errors[code] = errors.get(code, 0) + 1


def _struct_of(kind: Type) -> type[Struct] | None:
    if kind.element is not None:
        return _struct_of(kind.element)
    return kind.struct
