"""What commands print: tables and colours at a terminal, plain columns in a pipe, JSON on request.

Only results go to stdout; progress and remarks go to stderr, so that a pipe carries nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Iterable[str] = ()) -> None:
    """Print rows under their column names; tab-separated without decoration when stdout is no terminal.

    Parameters:
        numbers: the columns that are aligned to the right.
    """
    if not sys.stdout.isatty():
        for row in rows:
            sys.stdout.write("\t".join(map(str, row)) + "\n")
        return
    made = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in set(numbers) else "left", overflow="fold")
    for row in rows:
        made.add_row(*map(str, row))
    Console().print(made)


def as_json(value: Any) -> None:
    """Print one JSON document, indented."""
    encoded = msgspec.json.encode(_plain(value))
    sys.stdout.write(msgspec.json.format(encoded, indent=2).decode() + "\n")


def remark(text: str) -> None:
    """One line to the person, on stderr, and only if there is one."""
    if sys.stderr.isatty():
        Console(stderr=True).print(text, style="dim", highlight=False)


def progress() -> Progress:
    """A line on stderr that counts records while they go by; nothing in a pipe."""
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} records"), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def _plain(value: Any) -> Any:
    """Structs, named tuples and enums as JSON has them."""
    return (
        msgspec.to_builtins(value, str_keys=True)
        if not isinstance(value, Mapping)
        else {str(key): _plain(each) for key, each in value.items()}
    )
