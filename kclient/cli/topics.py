"""`kclient topics list|create|delete|describe|add-partitions`."""

from __future__ import annotations

from typing import Annotated

import typer

from kclient.admin import NewPartitions, NewTopic
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin

app = App(help="List, create, delete and describe topics; add partitions.")

Names = Annotated[list[str], typer.Argument(metavar="TOPIC", show_default=False)]


@app.command("list")
def list_topics(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    internal: Annotated[bool, typer.Option("--internal", help="Also internal topics.")] = False,
    json: Json = False,
) -> None:
    """List the topics of the cluster."""
    with admin(servers, properties, settings) as client:
        found = client.list_topics(include_internal=internal)
    if json:
        output.as_json(found)
    else:
        output.table(["topic"], ([name] for name in found))


@app.command()
def create(
    topics: Names,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    partitions: Annotated[int, typer.Option("--partitions", "-p", metavar="N", help="-1: the broker's default.")] = -1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", metavar="N", help="-1: the broker's default.")
    ] = -1,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="NAME=VALUE", help="A topic setting; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Create topics."""
    configs = dict(_setting(text) for text in config or ())
    wanted = [NewTopic(name, partitions, replication_factor, configs=dict(configs)) for name in topics]
    with admin(servers, properties, settings) as client:
        created = client.create_topics(wanted)
    if json:
        output.as_json(created)
    else:
        rows = ((topic.name, topic.num_partitions, topic.replication_factor) for topic in created.values())
        output.table(["created", "partitions", "replicas"], rows, numbers=["partitions", "replicas"])


@app.command()
def delete(topics: Names, servers: Servers = None, properties: Properties = None, settings: Settings = None) -> None:
    """Delete topics and all their records."""
    with admin(servers, properties, settings) as client:
        output.table(["deleted"], ([name] for name in client.delete_topics(topics)))


@app.command()
def describe(
    topics: Names, servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """Show the partitions of topics: leader, replicas, and in-sync replicas."""
    with admin(servers, properties, settings) as client:
        found = client.describe_topics(topics)
    if json:
        output.as_json(found)
        return
    columns = ["topic", "partition", "leader", "epoch", "replicas", "in sync"]
    rows = (
        (
            info.topic,
            info.partition,
            "none" if info.leader is None else info.leader,
            "" if info.leader_epoch is None else info.leader_epoch,
            ",".join(map(str, info.replicas)),
            ",".join(map(str, info.in_sync_replicas)),
        )
        for topic in found.values()
        for info in topic.partitions
    )
    output.table(columns, rows, numbers=["partition", "leader", "epoch"])


@app.command("add-partitions")
def add_partitions(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    total: Annotated[
        int, typer.Argument(metavar="TOTAL", help="The new total number of partitions.", show_default=False)
    ],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Add partitions to a topic."""
    with admin(servers, properties, settings) as client:
        client.create_partitions({topic: NewPartitions(total)})
    output.table(["topic", "partitions"], [(topic, total)], numbers=["partitions"])


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--config")
    return name, value
