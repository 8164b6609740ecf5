"""The common part of the two codec compilers: indented lines of Python, and names for the objects they use."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

SHORT_ARRAY = 32
"""Arrays of numbers with fewer elements have a prepared layout."""


@cache
def short_arrays(method: str, kind: str) -> list[Callable[..., Any]]:
    """Return the bound methods of `struct.Struct` for short arrays of a format, by the number of elements."""
    return [getattr(struct.Struct(f">{count}{kind}"), method) for count in range(SHORT_ARRAY)]


class Emitter:
    """Collects the source of one function and the namespace it runs in."""

    def __init__(self, **names: Any) -> None:
        self.names: dict[str, Any] = names
        self.lines: list[str] = []
        self.depth = 1
        self._count = 0
        self._bound: dict[tuple[str, Any], str] = {}

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add a line with a block under it."""
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def variable(self, hint: str) -> str:
        """Return an unused variable name."""
        self._count += 1
        return f"{hint}{self._count}"

    def bind(self, hint: str, value: Any) -> str:
        """Make an object accessible to the code; return its name there."""
        name = self.variable(hint)
        self.names[name] = value
        return name

    def fixed(self, method: str, formats: str) -> tuple[str, int]:
        """Make a bound method of a big-endian `struct.Struct` accessible; return its name and the size."""
        layout = struct.Struct(">" + formats)
        key = (method, formats)
        if key not in self._bound:
            self._bound[key] = self.bind(method, getattr(layout, method))
        return self._bound[key], layout.size

    def function(self, head: str, title: str) -> Callable[..., Any]:
        """Compile the collected lines under a `def` line; `title` appears in tracebacks."""
        source = "\n".join([head, *self.lines, ""])
        exec(compile(source, f"<{title}>", "exec"), self.names)
        made: Callable[..., Any] = self.names[head[4 : head.index("(")]]
        return made
