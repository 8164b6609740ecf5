"""`kclient consume`: prints records as they are, by a template, or as JSON lines.

Bytes go to standard output unchanged. Without --count or --exit-at-end it runs until interrupted.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer

from kclient.cli import output
from kclient.cli.connection import Properties, Servers, Settings, options
from kclient.cli.text import milliseconds, unescaped
from kclient.config import ConsumerConfig
from kclient.consumer import Consumer
from kclient.errors import UnknownTopicOrPartitionError
from kclient.types import ConsumerRecord, TopicPartition

POLL_RECORDS = 10_000
POLL_SECONDS = 0.5
FIELDS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")

Printer = Callable[[ConsumerRecord], bytes]
Start = Callable[[Consumer, list[TopicPartition]], None]


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC[:PARTITION]", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            "-f",
            metavar="WHERE",
            help="beginning, end, an offset, -N for the last N of each partition, or @TIME (ISO 8601 or ms).",
        ),
    ] = "beginning",
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after so many records.")] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", "-e", help="Stop at what is the end now.")] = False,
    template: Annotated[
        str | None,
        typer.Option("--format", help=r"As '{key}\t{value}\n'; also topic, partition, offset, timestamp, headers."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print the records of topics."""
    seek = _start(start)
    show = _json_line if json else _printer(template) if template else _value
    chosen = options(ConsumerConfig, servers, properties, settings)
    # A misspelt name is an error, not a new topic.
    chosen.setdefault("allow.auto.create.topics", "false")
    with Consumer.from_properties(chosen) as consumer:
        partitions = _partitions(consumer, topics)
        consumer.assign(partitions)
        # Before the positions: what arrives in between is then still read.
        ends = consumer.end_offsets(partitions) if exit_at_end else {}
        seek(consumer, partitions)
        with output.pipe():
            _copy(consumer, show, count, ends)


def _copy(consumer: Consumer, show: Printer, count: int | None, ends: dict[TopicPartition, int]) -> None:
    stdout = sys.stdout.buffer
    seen = 0
    with output.progress(sys.stdout) as progress:
        task = progress.add_task("consume", total=None)
        while count is None or seen < count:
            if ends and all(consumer.position(partition) >= end for partition, end in ends.items()):
                break
            wanted = POLL_RECORDS if count is None else min(POLL_RECORDS, count - seen)
            records = consumer.poll(timeout=POLL_SECONDS, max_records=wanted)
            for record in records:
                if ends and record.offset >= ends[TopicPartition(record.topic, record.partition)]:
                    continue
                stdout.write(show(record))
                seen += 1
            stdout.flush()
            progress.update(task, completed=seen)
    output.remark(output.counted(seen))


def _partitions(consumer: Consumer, topics: list[str]) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for text in topics:
        topic, separator, number = text.partition(":")
        if separator and not number.isdecimal():
            raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:PARTITION")
        existing = [TopicPartition(topic, info.partition) for info in consumer.partitions_for(topic)]
        chosen = [partition for partition in existing if not separator or partition.partition == int(number)]
        if not chosen:
            raise UnknownTopicOrPartitionError(
                f"the topic has no partition {int(number)}, only 0 to {len(existing) - 1}", topic=topic
            )
        found += chosen
    return found


def _start(text: str) -> Start:
    """Read --from, before anything is connected; what comes back seeks once the partitions are assigned."""
    if text == "beginning":
        return lambda consumer, partitions: consumer.seek_to_beginning(*partitions)
    if text == "end":
        return lambda consumer, partitions: consumer.seek_to_end(*partitions)
    if text.startswith("@"):
        at = milliseconds(text[1:], "--from")
        return lambda consumer, partitions: _seek_to_time(consumer, partitions, at)
    if re.fullmatch(r"-\d+", text):
        return lambda consumer, partitions: _seek_back(consumer, partitions, -int(text))
    if text.isdecimal():
        return lambda consumer, partitions: _seek_all(consumer, partitions, int(text))
    raise typer.BadParameter(f"{text!r} is not beginning, end, OFFSET, -N or @TIME", param_hint="--from")


def _seek_all(consumer: Consumer, partitions: list[TopicPartition], offset: int) -> None:
    for partition in partitions:
        consumer.seek(partition, offset)


def _seek_to_time(consumer: Consumer, partitions: list[TopicPartition], at: int) -> None:
    found = consumer.offsets_for_times(dict.fromkeys(partitions, at))
    for partition in partitions:
        first = found.get(partition)
        if first is None:
            consumer.seek_to_end(partition)
        else:
            consumer.seek(partition, first.offset)


def _seek_back(consumer: Consumer, partitions: list[TopicPartition], count: int) -> None:
    first, last = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    for partition in partitions:
        consumer.seek(partition, max(first[partition], last[partition] - count))


def _value(record: ConsumerRecord) -> bytes:
    return (record.value or b"") + b"\n"


def _printer(template: str) -> Printer:
    """Compile a template: what is in braces is a field, the rest stands as it is."""
    parts = re.split(r"\{(\w+)\}", unescaped(template, "--format"))
    unknown = [name for name in parts[1::2] if name not in FIELDS]
    if unknown:
        raise typer.BadParameter(
            f"there is no field {{{unknown[0]}}}; there are {', '.join(FIELDS)}", param_hint="--format"
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


def _json_line(record: ConsumerRecord) -> bytes:
    """A line that `kclient produce --json` reads back, bytes that are no text as base64."""
    line: dict[str, Any] = {name: getattr(record, name) for name in ("topic", "partition", "offset", "timestamp")}
    line |= _text_or_base64("key", record.key) | _text_or_base64("value", record.value)
    if record.headers:
        line["headers"] = [{"name": name} | _text_or_base64("value", value) for name, value in record.headers]
    return msgspec.json.encode(line) + b"\n"


def _text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data or b"").decode()}
