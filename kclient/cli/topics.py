"""`kclient topics list|create|delete|describe|add-partitions`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import typer

from kclient._text import id_text
from kclient.admin import NewPartitions, NewTopic, PartitionReassignment, TopicDescription
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.replica_state import Filter, described, reassignments_in_progress, selected
from kclient.cli.results import raise_if
from kclient.types import TopicPartition

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
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Default: all topics, internal ones included.", show_default=False),
    ] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with replicas that are not in sync.")
    ] = False,
    under_min_isr: Annotated[
        bool, typer.Option("--under-min-isr", help="Only partitions with fewer in sync than min.insync.replicas.")
    ] = False,
    at_min_isr: Annotated[
        bool, typer.Option("--at-min-isr", help="Only partitions with as many in sync as min.insync.replicas.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions whose leader is missing.")
    ] = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Show the partitions of topics: leader, replicas, in-sync and eligible leader replicas, and reassignments.

    With several filters, partitions that fulfil one of them.
    """
    chosen = {
        Filter.UNDER_REPLICATED: under_replicated,
        Filter.UNDER_MIN_ISR: under_min_isr,
        Filter.AT_MIN_ISR: at_min_isr,
        Filter.UNAVAILABLE: unavailable,
    }
    filters = {each for each, wanted in chosen.items() if wanted}
    with admin(servers, properties, settings) as client:
        found, error = described(client, topics)
        ongoing = reassignments_in_progress(client)
        if filters:
            found = selected(client, found, ongoing, filters)
    if json:
        output.as_json(found)
    else:
        _show_partitions(found.values(), ongoing)
    raise_if(error)


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


def _show_partitions(
    topics: Iterable[TopicDescription], ongoing: Mapping[TopicPartition, PartitionReassignment]
) -> None:
    columns = ["topic", "partition", "leader", "epoch", "replicas", "in sync", "elr", "last known elr", "adding"]
    columns += ["removing", "topic id"]
    nothing = PartitionReassignment(())
    rows = (
        (
            info.topic,
            info.partition,
            "none" if info.leader is None else info.leader,
            info.leader_epoch,
            *map(
                output.joined,
                (info.replicas, info.in_sync_replicas, info.eligible_leader_replicas, info.last_known_elr),
            ),
            output.joined(ongoing.get(TopicPartition(info.topic, info.partition), nothing).adding_replicas),
            output.joined(ongoing.get(TopicPartition(info.topic, info.partition), nothing).removing_replicas),
            id_text(topic.topic_id) if topic.topic_id.int else None,
        )
        for topic in topics
        for info in topic.partitions
    )
    output.table(columns, rows, numbers=["partition", "leader", "epoch"])


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--config")
    return name, value
