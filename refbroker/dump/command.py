"""Goes through files, and prints what the readers find, line by line."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from kclient.errors import KafkaError
from refbroker.dump.readers import Entry, reader_for
from refbroker.log.checkpoints import encode_uuid


def dump_files(paths: Sequence[Path], *, records: bool, as_json: bool) -> int:
    """Print what is in files; returns 1 when one of them could not be read to its end, else 0.

    Parameters:
        records: show the records of segments, not only their batches.
        as_json: one JSON object a line.
    """
    status = 0
    for path in paths:
        print_line = _print_json if as_json else _print_text
        if not as_json:
            sys.stdout.write(f"Dumping {path}\n")
        try:
            for entry in _entries(path, records):
                print_line(path, entry)
        except (KafkaError, ValueError, OSError) as error:
            sys.stdout.flush()
            sys.stderr.write(f"refbroker: {path}: {error}\n")
            status = 1
    return status


def _entries(path: Path, records: bool) -> Iterator[Entry]:
    yield from reader_for(path)(path, records)


def _print_json(path: Path, entry: Entry) -> None:
    sys.stdout.write(json.dumps({"file": str(path), **entry.fields}, default=plain, separators=(",", ":")) + "\n")


def _print_text(path: Path, entry: Entry) -> None:
    indent = "| " if entry.nested else ""
    sys.stdout.write(indent + " ".join(f"{name}: {_shown(value)}" for name, value in entry.fields.items()) + "\n")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value, default=plain, separators=(",", ":"))
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_shown, value)) + "]"
    if isinstance(value, bytes | memoryview):
        return repr(bytes(value))[2:-1]
    return str(plain(value)) if isinstance(value, UUID) else str(value)


def plain(value: object) -> object:
    """A value as JSON can hold it: ids in Kafka's form, bytes as text where they are text, else as base64."""
    if isinstance(value, UUID):
        return encode_uuid(value)
    if isinstance(value, bytes | memoryview):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return base64.b64encode(data).decode()
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not shown")
