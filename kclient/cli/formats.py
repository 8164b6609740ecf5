"""The forms in which `kclient consume` prints a record: its value alone, a template, or JSON (`json_records`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import typer

from kclient.cli.text import unescaped
from kclient.types import ConsumerRecord

FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

Printer = Callable[[ConsumerRecord], bytes]


def value_line(record: ConsumerRecord) -> bytes:
    """Return the value as a line."""
    return (record.value or b"") + b"\n"


def template_printer(template: str) -> Printer:
    """Compile a template: a name in braces is a field, the rest is printed as it is.

    Raises:
        typer.BadParameter: a field does not exist.
    """
    parts = re.split(r"\{(\w+)\}", unescaped(template, "--format"))
    unknown = [name for name in parts[1::2] if name not in FIELDS]
    if unknown:
        raise typer.BadParameter(
            f"there is no field {{{unknown[0]}}}; the fields are {', '.join(FIELDS)}", param_hint="--format"
        )

    def show(record: ConsumerRecord) -> bytes:
        return b"".join(
            part.encode() if index % 2 == 0 else _field(getattr(record, part)) for index, part in enumerate(parts)
        )

    return show


def _field(value: Any) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, tuple):
        return b",".join(name.encode() + b":" + (each or b"") for name, each in value)
    return str(value).encode()
