"""The input of `kclient produce`: each line of a file becomes a record, with the line's number for errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kclient.cli import json_records
from kclient.types import Headers


class Line(NamedTuple):
    """A line, and the parts of a record that it names."""

    number: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


class LineError(Exception):
    """A line that cannot be produced.

    Attributes:
        number: the line number, from 1.
    """

    def __init__(self, number: int, reason: object) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number = number


def plain_lines(source: Iterable[bytes], separator: bytes | None) -> Iterator[Line]:
    """Read each line as a value, or as key and value with a separator between them.

    Raises:
        LineError: a line has no separator.
    """
    for number, raw in enumerate(source, 1):
        text = raw.rstrip(b"\n").removesuffix(b"\r")
        if separator is None:
            yield Line(number, text)
            continue
        key, found, value = text.partition(separator)
        if not found:
            raise LineError(number, f"there is no key separator {separator.decode(errors='backslashreplace')!r}")
        yield Line(number, value, key)


def json_lines(source: Iterable[bytes]) -> Iterator[Line]:
    """Read each line as a JSON object; skip empty lines.

    Raises:
        LineError: a line is not such an object.
    """
    for number, raw in enumerate(source, 1):
        if not raw.strip():
            continue
        try:
            record = json_records.decode(raw)
            line = Line(
                number,
                record.value_bytes(),
                record.key_bytes(),
                record.header_pairs(),
                record.partition,
                record.timestamp,
            )
        except ValueError as error:
            raise LineError(number, error) from None
        yield line
