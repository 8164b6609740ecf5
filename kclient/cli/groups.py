"""`kclient groups list|describe|lag|reset|delete`.

Successful results are shown even if others fail. A reset is a dry run without --execute, as with Kafka's own tool,
whose CSV (`topic,partition,offset`) it reads and writes.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kclient.admin import Admin, GroupDescription, GroupState, GroupType, OffsetReset
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.results import raise_if, succeeded
from kclient.cli.text import milliseconds, named, partitions, seconds
from kclient.types import TopicPartition

app = App(help="List, describe and delete consumer groups; show their lag; reset their offsets.")

Names = Annotated[list[str], typer.Argument(metavar="GROUP", show_default=False)]
Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:PARTITION,...]",
        help="Only these, instead of everything the group has committed for; repeatable.",
    ),
]


@app.command("list")
def list_groups(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only groups in this state, such as Stable or Empty; repeatable."
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Only groups of this type, such as Classic or Consumer; repeatable."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the groups of the cluster."""
    states = [named(GroupState, text, "--state") for text in state or ()]
    types = [named(GroupType, text, "--type") for text in kind or ()]
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.list_groups(states=states, types=types))
    if json:
        output.as_json(found)
    else:
        rows = ((group.group_id, group.type.value, group.state.value, group.protocol_type) for group in found.values())
        output.table(["group", "type", "state", "protocol"], rows)
    raise_if(error)


@app.command()
def describe(
    groups: Names, servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """Show the state of groups, their members, and the partitions of each member."""
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.describe_groups(groups))
    if json:
        output.as_json(found)
    else:
        columns = ["group", "state", "assignor", "coordinator", "member", "instance", "client", "host", "partitions"]
        output.table(columns, (row for group in found.values() for row in _members(group)), numbers=["coordinator"])
    raise_if(error)


@app.command()
def lag(
    groups: Names, servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """Show the lag of groups in each partition, and the member that reads it."""
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.group_lag(groups))
    columns = ["group", "topic", "partition", "committed", "end", "lag", "member"]
    rows = [
        (group, *key, each.committed, each.end, each.lag, each.member_id)
        for group, partitions in found.items()
        for key, each in partitions.items()
    ]
    if json:
        output.as_json([dict(zip(columns, row)) for row in rows])
    else:
        output.table(columns, rows, numbers=columns[2:6])
    raise_if(error)


@app.command()
def reset(
    group: Group,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    topics: Topics = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_time: Annotated[str | None, typer.Option("--to-time", metavar="TIME", help="To a time: ISO 8601 or ms.")] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="PT1H", help="To this long ago: ISO 8601.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="By this many offsets; backwards if negative.")
    ] = None,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="To this offset.")] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file", metavar="FILE", exists=True, dir_okay=False, help="A CSV file: topic,partition,offset."
        ),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Make the change; without it, only show it.")] = False,
    export: Annotated[
        bool, typer.Option("--export", help="Print the new offsets in the format of --from-file.")
    ] = False,
    json: Json = False,
) -> None:
    """Reset the offsets of a group without members; a dry run without --execute."""
    wanted = {
        "--to-earliest": OffsetReset.earliest() if to_earliest else None,
        "--to-latest": OffsetReset.latest() if to_latest else None,
        "--to-time": None if to_time is None else OffsetReset.to_time(milliseconds(to_time, "--to-time")),
        "--by-duration": None
        if by_duration is None
        else OffsetReset.by_duration(seconds(by_duration, "--by-duration")),
        "--shift-by": None if shift_by is None else OffsetReset.shift_by(shift_by),
        "--to-offset": None if to_offset is None else OffsetReset.to_offset(to_offset),
        "--from-file": None if from_file is None else OffsetReset.to_offsets(_read(from_file, group)),
    }
    chosen = [to for to in wanted.values() if to is not None]
    if len(chosen) != 1:
        raise typer.BadParameter(f"pass one of {', '.join(wanted)}")
    if from_file and topics:
        raise typer.BadParameter("the file contains the partitions; do not pass --topic")
    only = [each for text in topics or () for each in partitions(text)] or None
    with admin(servers, properties, settings) as client:
        found, error = succeeded(
            lambda: client.reset_group_offsets(group, chosen[0], partitions=only, dry_run=not execute)
        )
    columns = ["topic", "partition", "before", "after"]
    rows = [(*key, change.before, change.after) for key, change in found.items()]
    if json:
        output.as_json([dict(zip(columns, row)) for row in rows])
    elif export:
        with output.pipe():
            csv.writer(sys.stdout, lineterminator="\n").writerows((*key, change.after) for key, change in found.items())
    else:
        output.table(columns, rows, numbers=columns[1:])
    if not execute and not export:
        output.notice("nothing was changed; pass --execute to make the change")
    raise_if(error)


@app.command()
def delete(
    groups: Names,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    topics: Topics = None,
) -> None:
    """Delete groups without members and their committed offsets, or only some of the offsets."""
    with admin(servers, properties, settings) as client:
        if not topics:
            found, error = succeeded(lambda: client.delete_groups(groups))
            output.table(["deleted"], ([name] for name in found))
            raise_if(error)
            return
        wanted = [each for text in topics for each in partitions(text)]
        for group in groups:
            keys = _committed(client, group, wanted)
            deleted, error = succeeded(partial(client.delete_group_offsets, group, keys))
            output.table(["deleted", "topic", "partition"], ((group, *key) for key in deleted), numbers=["partition"])
            raise_if(error)


def _members(group: GroupDescription) -> Iterable[tuple[object, ...]]:
    """Return a line for each member, or one line for a group without members."""
    head = (group.group_id, group.state.value, group.assignor, group.coordinator.node_id)
    for member in group.members:
        partitions = " ".join(map(str, member.assignment))
        yield (*head, member.member_id, member.instance_id, member.client_id, member.host, partitions)
    if not group.members:
        yield (*head, None, None, None, None, None)


def _committed(client: Admin, group: str, wanted: list[TopicPartition | str]) -> list[TopicPartition]:
    """Return the chosen partitions; for a topic, which may be deleted, those that the group has committed for."""
    committed = client.list_group_offsets(group)[group]
    found = [TopicPartition(*each) for each in wanted if not isinstance(each, str)]
    return list(dict.fromkeys([*found, *(key for key in committed if key.topic in wanted)]))


def _read(file: Path, group: str) -> Mapping[TopicPartition, int]:
    """Return the offsets of a CSV file: `topic,partition,offset`, or with the group in front, as Kafka's tool writes
    it.
    """
    found: dict[TopicPartition, int] = {}
    with file.open(newline="", encoding="utf-8") as lines:
        for number, line in enumerate(csv.reader(lines), 1):
            if not line:
                continue
            named, topic, partition, offset = [group, *line] if len(line) == 3 else line if len(line) == 4 else [""] * 4
            if not partition.isdecimal() or not offset.isdecimal():
                message = f"{file}, line {number} is not topic,partition,offset"
                raise typer.BadParameter(message, param_hint="--from-file")
            if named == group:
                found[TopicPartition(topic, int(partition))] = int(offset)
    if not found:
        raise typer.BadParameter(f"{file} has no offsets for the group {group!r}", param_hint="--from-file")
    return found
