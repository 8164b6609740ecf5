"""`kclient log-dirs describe|replicas|move`: the log directories of brokers and what is in them (KIP-113).

Elsewhere: moves of many replicas, with a throttle (`reassignments`).
"""

from __future__ import annotations

from typing import Annotated

import typer

from kclient.admin import TopicPartitionReplica
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.results import raise_if, succeeded
from kclient.cli.text import partitions

app = App(help="Show the log directories of brokers; move replicas between those of a broker.")

Brokers = Annotated[
    list[int] | None,
    typer.Option("--broker", metavar="ID", help="Only this broker; repeatable. Default: all brokers."),
]


@app.command()
def describe(
    brokers: Brokers = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Show the log directories of brokers: their replicas, bytes, and the space on their volumes."""
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.describe_log_dirs(brokers))
    if json:
        output.as_json(found)
    else:
        rows = (
            (
                broker,
                path,
                "cordoned" if each.is_cordoned else "online" if each.error is None else each.error.name.lower(),
                len(each.replica_infos),
                sum(info.size for info in each.replica_infos.values()),
                each.usable_bytes,
                each.total_bytes,
            )
            for broker, directories in found.items()
            for path, each in sorted(directories.items())
        )
        columns = ["broker", "directory", "state", "replicas", "bytes", "usable bytes", "total bytes"]
        output.table(columns, rows, numbers=["broker", *columns[3:]])
    raise_if(error)


@app.command()
def replicas(
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Only replicas of these topics.", show_default=False),
    ] = None,
    brokers: Brokers = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Show each replica: its directory, its bytes, and how many offsets it is behind."""
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.describe_log_dirs(brokers))
    columns = ["topic", "partition", "broker", "directory", "bytes", "lag", "future"]
    rows = sorted(
        (*key, broker, path, info.size, info.offset_lag, info.is_future)
        for broker, directories in found.items()
        for path, each in directories.items()
        for key, info in each.replica_infos.items()
        if not topics or key.topic in topics
    )
    if json:
        output.as_json([dict(zip(columns, row)) for row in rows])
    else:
        shown = ((*row[:-1], "future" if row[-1] else None) for row in rows)
        output.table(columns, shown, numbers=["partition", "broker", "bytes", "lag"])
    raise_if(error)


@app.command()
def move(
    where: Annotated[list[str], typer.Argument(metavar="TOPIC:PARTITION,...", show_default=False)],
    broker: Annotated[int, typer.Option("--broker", metavar="ID", help="The broker that has the replicas.")],
    to: Annotated[str, typer.Option("--to", metavar="DIRECTORY", help="The directory, as `describe` shows it.")],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Start to move replicas to another directory of their broker; `replicas` shows the progress."""
    wanted = {}
    for key in (each for text in where for each in partitions(text)):
        if isinstance(key, str):
            raise typer.BadParameter(f"name the partitions: {key}:0,1")
        wanted[TopicPartitionReplica(*key, broker)] = to
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.alter_replica_log_dirs(wanted))
    output.table(["moving", "partition", "broker"], found, numbers=["partition", "broker"])
    raise_if(error)
