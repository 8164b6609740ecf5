"""What commands print: tables and colours at a terminal, plain columns in a pipe, JSON on request.

Only results go to stdout; progress and remarks go to stderr, so that a pipe carries nothing else.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import IO, Any

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

REPEATED_SECONDS = 60.0


class Repetitions(logging.Filter):
    """Suppresses a warning that contains another one of the last minute: each part of a client reports an outage.

    The name of the client, with which a warning begins, does not count.
    """

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        self._told = {text: when for text, when in self._told.items() if record.created - when < REPEATED_SECONDS}
        message = record.getMessage()
        if any(text in message for text in self._told):
            return False
        self._told[message.partition(": ")[2] or message] = record.created
        return True


def show_warnings() -> None:
    """Let what the client warns of appear on stderr, as errors do, without repetitions."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.addFilter(Repetitions())
    handler.setFormatter(logging.Formatter("kclient: %(message)s"))
    logging.getLogger("kclient").addHandler(handler)


@contextmanager
def pipe() -> Iterator[None]:
    """Around writing to stdout: that its reader has seen enough, as in `... | head`, is an ordinary end."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered goes nowhere, or the interpreter would complain when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[str] = ()) -> None:
    """Print rows under their column names; tab-separated without decoration when stdout is no terminal.

    Parameters:
        numbers: the columns that are aligned to the right.
    """
    if not sys.stdout.isatty():
        with pipe():
            for row in rows:
                sys.stdout.write("\t".join(map(_cell, row)) + "\n")
        return
    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in set(numbers) else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(_cell, row))
    Console().print(made)


def as_json(value: Any) -> None:
    """Print one JSON document, indented."""
    encoded = msgspec.json.encode(_plain(value))
    with pipe():
        sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")


def notice(text: str) -> None:
    """Print one line on stderr, at a terminal or not: what a command does that its user must know of."""
    print(f"kclient: {text}", file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """One line to the person, on stderr, and only if there is one."""
    if sys.stderr.isatty():
        Console(stderr=True).print(text, style="dim", highlight=False)


def counted(number: int) -> str:
    """So many records, in words."""
    return f"{number:,} record{'' if number == 1 else 's'}"


def progress(beside: IO[Any]) -> Progress:
    """A line on stderr that counts records while they go by; nothing in a pipe.

    Parameters:
        beside: where the records come from or go to; at a terminal the line would run into them, and is left out.
    """
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records"), TimeElapsedColumn())
    return Progress(
        *columns, console=Console(stderr=True), transient=True, disable=beside.isatty() or not sys.stderr.isatty()
    )


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _plain(value: Any) -> Any:
    """Structs, named tuples and enums as JSON has them: enums by their names, as tables show them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Enum):
        return value.value if isinstance(value.value, str) else value.name.lower()
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return msgspec.to_builtins(value)
