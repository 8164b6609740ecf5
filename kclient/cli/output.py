"""What commands print: tables and colours at a terminal, plain columns in a pipe, JSON on request.

Only results go to stdout; progress and remarks go to stderr, so that a pipe contains only results.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import IO, Any
from uuid import UUID

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from kclient._text import id_text
from kclient.errors import KafkaError

REPEATED_SECONDS = 60.0


class Repetitions(logging.Filter):
    """Suppresses repetitions of a warning within a minute: each part of a client reports an outage.

    The name of the client, with which a warning begins, is ignored.
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
    """Show the client's warnings on stderr, like errors, without repetitions."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.addFilter(Repetitions())
    handler.setFormatter(logging.Formatter("kclient: %(message)s"))
    logging.getLogger("kclient").addHandler(handler)


@contextmanager
def pipe() -> Iterator[None]:
    """End the command normally if the reader of stdout has closed it, as in `... | head`."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # The remaining buffer is discarded, or the interpreter would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[str] = ()) -> None:
    """Print rows under their column names; tab-separated without decoration if stdout is not a terminal.

    Parameters:
        numbers: the right-aligned columns.
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
    """Print one line on stderr, at a terminal or not: something about the command that its user must know."""
    print(f"kclient: {text}", file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """Print one line on stderr, if that is a terminal."""
    if sys.stderr.isatty():
        Console(stderr=True).print(text, style="dim", highlight=False)


def joined(brokers: Iterable[int] | None) -> str | None:
    """Return the ids of brokers as one cell; None if they are unknown."""
    return None if brokers is None else ",".join(map(str, brokers))


def counted(number: int) -> str:
    """Return a number of records in words."""
    return f"{number:,} record{'' if number == 1 else 's'}"


def progress(beside: IO[Any]) -> Progress:
    """Return a progress line on stderr that counts records; in a pipe it shows nothing.

    Parameters:
        beside: the source or destination of the records; if that is a terminal, there is no progress line.
    """
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records"), TimeElapsedColumn())
    return Progress(
        *columns, console=Console(stderr=True), transient=True, disable=beside.isatty() or not sys.stderr.isatty()
    )


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _plain(value: Any) -> Any:
    """Return structs, named tuples, enums, ids and errors as JSON values; enums by their names, as tables show them."""
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
    if isinstance(value, UUID):
        return id_text(value)
    if isinstance(value, KafkaError):
        return str(value)
    return msgspec.to_builtins(value)
