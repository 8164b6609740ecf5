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
from kclient.protocol.fields import fields_of
from kclient.protocol.schema import Struct
from refbroker.metrics.histogram import Histogram

ErrorFinder = Callable[[Any, dict[int, int]], None]


class RequestStats:
    """The requests of one API.

    What happens at every request is only noted then, and added up many at a time: in a loop of its own that costs a
    part of what it does among everything else that a request needs.

    Attributes:
        note_handled: takes the bytes of a request's frame without its size, and for how long, in nanoseconds, it waited
            and was worked on.
        note_sent: takes the bytes of an answer, and how long sending it took, in nanoseconds.
        name: of the API.
        count: how many were handled.
        bytes_in, bytes_out: of requests and of answers, frames with their sizes.
        errors: error codes in answers, at every level (a Produce answer has one for each partition), by number.
        queue, work, wait, response: where the time went.
    """

    __slots__ = (
        "_find_errors",
        "_handled",
        "_sent",
        "bytes_in",
        "bytes_out",
        "count",
        "errors",
        "name",
        "note_handled",
        "note_sent",
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
        self._handled: list[tuple[int, int, int]] = []
        self._sent: list[tuple[int, int]] = []
        self.note_handled = self._handled.append
        self.note_sent = self._sent.append
        self._find_errors = error_finder(request.response_type)

    def add_up(self) -> bool:
        """Add up what was noted, and say whether there was anything."""
        if self._handled:
            sizes, queue_ns, work_ns = zip(*self._handled, strict=True)
            self._handled.clear()
            self.count += len(sizes)
            self.bytes_in += sum(sizes) + 4 * len(sizes)
            self.queue.observe_all(queue_ns)
            self.work.observe_all(work_ns)
        elif not self._sent:
            return False
        if self._sent:
            sizes, response_ns = zip(*self._sent, strict=True)
            self._sent.clear()
            self.bytes_out += sum(sizes)
            self.response.observe_all(response_ns)
        return True

    def count_errors(self, answer: Message) -> None:
        """Count the error codes in an answer."""
        if self._find_errors is not None:
            self._find_errors(answer, self.errors)


class RequestMetrics(dict[int, RequestStats]):
    """The requests of all APIs, by the API's key; one appears with its first request."""

    def __missing__(self, api_key: int) -> RequestStats:
        stats = self[api_key] = RequestStats(request_type(api_key))
        return stats


def error_finder(struct: type[Struct]) -> ErrorFinder | None:
    """A function that counts the error codes of a struct and of all within it; None when it has no place for one.

    It is compiled from the declaration, as the codecs are, since it looks at every partition of every answer.
    """
    lines = _lines(struct, "m0", 1)
    if not lines:
        return None
    source = "\n".join(["def find(m0, errors):", *lines])
    names: dict[str, Any] = {}
    exec(compile(source, f"<errors of {struct.__name__}>", "exec"), names)
    finder: ErrorFinder = names["find"]
    return finder


def _lines(struct: type[Struct], name: str, depth: int) -> list[str]:
    """What looks at a value of this type, which has this name in the code."""
    indent, inner = "    " * depth, f"m{depth}"
    lines = []
    for field in fields_of(struct):
        if field.name == "error_code":
            lines += [
                f"{indent}if {name}.error_code:",
                f"{indent}    errors[{name}.error_code] = errors.get({name}.error_code, 0) + 1",
            ]
        elif field.type.element is not None and field.type.element.struct is not None:
            within = _lines(field.type.element.struct, inner, depth + 1)
            lines += within and [f"{indent}for {inner} in {name}.{field.name} or ():", *within]
        elif field.type.struct is not None:
            within = _lines(field.type.struct, inner, depth + 1)
            lines += within and [
                f"{indent}{inner} = {name}.{field.name}",
                f"{indent}if {inner} is not None:",
                *within,
            ]
    return lines
