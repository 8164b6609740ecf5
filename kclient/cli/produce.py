"""`kclient produce`: lines of a file or of standard input become records.

Bytes are taken as they are. Nothing waits for a single record; a record that could not be delivered
is counted, the first errors are shown, and the exit code is 1.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec
import typer

from kclient.cli import output
from kclient.cli.connection import Properties, Servers, Settings, options
from kclient.cli.text import unescaped
from kclient.config import ProducerConfig
from kclient.producer import Producer

PROGRESS_EVERY = 1000


class Line(NamedTuple):
    """What one line says of a record."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


class JsonHeader(msgspec.Struct, forbid_unknown_fields=True):
    """One header of a JsonRecord."""

    name: str
    value: str | None = None
    value_base64: str | None = None


class JsonRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A record as `--json` reads it, and as `kclient consume --json` writes it.

    `key` and `value` are text; `key_base64` and `value_base64` are for bytes that are not.
    """

    value: str | None = None
    key: str | None = None
    value_base64: str | None = None
    key_base64: str | None = None
    headers: list[JsonHeader] = []
    partition: int | None = None
    timestamp: int | None = None
    topic: str | None = None
    offset: int | None = None


def produce(
    topic: Annotated[str, typer.Argument(show_default=False)],
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help="Standard input if not given.")
    ] = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help="What stands between key and value in a line.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="For every record; repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="Instead of the partitioner's.")] = None,
    compression: Annotated[str | None, typer.Option("--compression", "-z", help="gzip, snappy, lz4 or zstd.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Each line is a JSON object: value, key, headers, ...")] = False,
) -> None:
    """Produce a record for each line."""
    chosen: dict[str, Any] = options(ProducerConfig, servers, properties, settings)
    if compression:
        chosen["compression.type"] = compression
    headers = tuple(_header(text) for text in header or ())
    separator = unescaped(key_separator, "--key-separator").encode() if key_separator else None
    with (
        open(file, "rb") if file else _standard_input() as source,
        Producer.from_properties(chosen) as producer,
        output.progress(source) as progress,
    ):
        if source.isatty():
            output.remark("a record per line; Ctrl-D ends")
        task = progress.add_task("produce", total=None)
        count = 0
        for line in _json_lines(source) if json else _lines(source, separator):
            producer.send(
                topic,
                line.value,
                key=line.key,
                headers=(*headers, *line.headers),
                partition=line.partition if line.partition is not None else partition,
                timestamp=line.timestamp,
            )
            count += 1
            if count % PROGRESS_EVERY == 0:
                progress.update(task, completed=count)
        producer.flush()
    output.remark(f"{output.counted(count)} produced to {topic}")


def _standard_input() -> BinaryIO:
    # A second file object on the same descriptor: closing it leaves the process's own open.
    return open(sys.stdin.fileno(), "rb", closefd=False)


def _lines(source: BinaryIO, separator: bytes | None) -> Iterator[Line]:
    for number, raw in enumerate(source, 1):
        text = raw.rstrip(b"\n").removesuffix(b"\r")
        if separator is None:
            yield Line(text)
            continue
        key, found, value = text.partition(separator)
        if not found:
            wanted = separator.decode(errors="backslashreplace")
            raise typer.BadParameter(f"line {number} has no key separator {wanted!r}", param_hint="--key-separator")
        yield Line(value, key)


def _json_lines(source: BinaryIO) -> Iterator[Line]:
    decoder = msgspec.json.Decoder(JsonRecord)
    for number, raw in enumerate(source, 1):
        if not raw.strip():
            continue
        try:
            record = decoder.decode(raw)
            yield Line(
                _bytes(record.value, record.value_base64),
                _bytes(record.key, record.key_base64),
                tuple((header.name, _bytes(header.value, header.value_base64)) for header in record.headers),
                record.partition,
                record.timestamp,
            )
        except ValueError as error:
            raise typer.BadParameter(f"line {number}: {error}", param_hint="--json") from None


def _bytes(text: str | None, encoded: str | None) -> bytes | None:
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    return None if text is None else text.encode()


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode()
