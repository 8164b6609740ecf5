"""`kclient consume`: prints records as they are, by a template, or as JSON lines.

Bytes go to standard output unchanged. Without --count or --exit-at-end it runs until interrupted. It joins a group, and
commits offsets, only with --group (`membership`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from kclient.cli import json_records, output
from kclient.cli.connection import Properties, Servers, Settings, given_settings, options
from kclient.cli.formats import Printer, template_printer, value_line
from kclient.cli.membership import Membership
from kclient.cli.text import milliseconds
from kclient.config import ConsumerConfig
from kclient.consumer import Consumer
from kclient.errors import UnknownTopicOrPartitionError
from kclient.types import TopicPartition

POLL_RECORDS = 10_000
POLL_SECONDS = 0.5
RESETS = {"beginning": "earliest", "end": "latest"}
"""The reset policy for each value of --from, for partitions without a committed offset of the group."""

_GROUP, _INSTANCE, _AUTO_COMMIT = "group.id", "group.instance.id", "enable.auto.commit"

Start = Callable[[Consumer, list[TopicPartition]], None]


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC[:PARTITION]", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            "-f",
            metavar="WHERE",
            help="beginning, end, an offset, -N for the last N of each partition, or @TIME (ISO 8601 or ms). With "
            "--group: beginning or end, for partitions without a committed offset.",
            show_default="beginning",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="Stop after this many records.")
    ] = None,
    exit_at_end: Annotated[bool, typer.Option("--exit-at-end", "-e", help="Stop at the current end.")] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="NAME",
            help="Read as a member of this group, and commit what is printed. Without it, nothing is committed.",
        ),
    ] = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="TEMPLATE",
            help=r"A template such as '{key}\t{value}\n'; also topic, partition, offset, timestamp, headers.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print the records of topics."""
    seek = _start(start or "beginning")
    show = json_records.encode if json else template_printer(template) if template else value_line
    chosen = _options(servers, properties, settings, group, start)
    if group is not None and any(":" in topic for topic in topics):
        raise typer.BadParameter("with --group the group assigns the partitions; pass topics without partitions")
    with Consumer.from_properties(chosen) as consumer:
        partitions = _partitions(consumer, topics)
        # Before the positions are read, so that records that arrive in between are read as well.
        ends = consumer.end_offsets(partitions) if exit_at_end else {}
        member = None
        if group is None:
            consumer.assign(partitions)
            seek(consumer, partitions)
        else:
            member = Membership(consumer, ends)
            member.join(topics)
        with output.pipe(), member or nullcontext():
            _copy(consumer, show, count, ends, member)


def _options(
    servers: str | None, properties: Path | None, settings: Iterable[str] | None, group: str | None, start: str | None
) -> dict[str, Any]:
    """Return the consumer's options; options of the file that would make it a member of the application's group are
    ignored.

    Raises:
        typer.BadParameter: --set says what --group is for, or --from what a group does not know.
    """
    given = given_settings(ConsumerConfig, settings)
    for name in (_GROUP, _AUTO_COMMIT) if group is not None else (_GROUP, _INSTANCE, _AUTO_COMMIT):
        if name in given:
            raise typer.BadParameter(
                f"{name} cannot be set; use --group NAME to read as a member of a group and commit what is printed",
                param_hint="--set",
            )
    chosen = options(ConsumerConfig, servers, properties, settings)
    # A misspelt name is an error instead of a new topic.
    chosen.setdefault("allow.auto.create.topics", "false")
    chosen.pop(_AUTO_COMMIT, None)
    if _INSTANCE not in given:
        # From the file: it would replace the member that has this id.
        chosen.pop(_INSTANCE, None)
    ignored = chosen.pop(_GROUP, None)
    if group is None:
        if ignored is not None:
            output.remark(f"reading without the group {ignored!r} of {properties}; nothing is committed")
        return chosen
    if start is not None and start not in RESETS:
        raise typer.BadParameter(
            f"{start!r} is not beginning or end; a group continues at its committed "
            "offsets, which `kclient groups reset` changes",
            param_hint="--from",
        )
    reset = RESETS.get(start or "")
    if reset is not None:
        chosen["auto.offset.reset"] = reset
    chosen.setdefault("auto.offset.reset", RESETS["beginning"])
    return {**chosen, _GROUP: group, _AUTO_COMMIT: "false"}


def _copy(
    consumer: Consumer,
    show: Printer,
    count: int | None,
    ends: Mapping[TopicPartition, int],
    member: Membership | None,
) -> None:
    stdout = sys.stdout.buffer
    seen = 0
    with output.progress(sys.stdout) as progress:
        task = progress.add_task("consume", total=None)
        while count is None or seen < count:
            if ends and (member.at_end if member else _at_end(consumer, ends)):
                break
            wanted = POLL_RECORDS if count is None else min(POLL_RECORDS, count - seen)
            records = consumer.poll(timeout=POLL_SECONDS, max_records=wanted)
            for record in records:
                if ends and record.offset >= ends.get(TopicPartition(record.topic, record.partition), 0):
                    continue
                stdout.write(show(record))
                seen += 1
            stdout.flush()
            if member:
                member.printed(records)
            progress.update(task, completed=seen)
    output.remark(output.counted(seen))


def _at_end(consumer: Consumer, ends: Mapping[TopicPartition, int]) -> bool:
    return all(consumer.position(partition) >= end for partition, end in ends.items())


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
    """Parse --from before connecting; return a function that seeks once the partitions are assigned."""
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
