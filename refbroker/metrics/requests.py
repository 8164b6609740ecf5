"""The request metrics, by API.

A request's time has four parts, which take at most three readings of the clock:

    frame complete --(queue)--> handling --(work)--> answer --(wait)--> answer is due --(response)--> sent

Queue: the frame has arrived, but an earlier request is being handled or waits for its response. Work: decoding, the
handler, encoding. Wait: a long poll; requests that are answered immediately are not counted. Response: until the last
byte was given to the socket.
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
    """The metrics of one API.

    A request is only noted when it is handled, and the notes are summed in bulk: a separate loop costs a fraction of
    what the same sums cost between everything else that a request needs.

    Attributes:
        note_handled: takes the size of a request's frame in bytes, without the size field, and the nanoseconds it spent
            in the queue and in work.
        note_sent: takes the size of a response in bytes and the nanoseconds it took to send.
        name: the name of the API.
        count: the number of handled requests.
        bytes_in, bytes_out: the bytes of requests and responses, including their size fields.
        errors: error codes in responses, by number, at every level (a Produce response has one for each partition).
        queue, work, wait, response: the time spent in each part.
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
        """Sum the notes; return whether there were any."""
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
        """Count the error codes in a response."""
        if self._find_errors is not None:
            self._find_errors(answer, self.errors)


class RequestMetrics(dict[int, RequestStats]):
    """The metrics of all APIs, by API key; an entry is created with the first request."""

    def __missing__(self, api_key: int) -> RequestStats:
        stats = self[api_key] = RequestStats(request_type(api_key))
        return stats


def error_finder(struct: type[Struct]) -> ErrorFinder | None:
    """Return a function that counts the error codes of a struct and of all structs within it; None when it has no such
    field.

    It is compiled from the declaration, as the codecs are, because it visits every partition of every response.
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
    """Return the lines that visit a value of this type, which the code refers to by this name."""
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
