"""`kclient transactions list|describe|describe-producers|find-hanging|abort|fence`.

The functions of Kafka's kafka-transactions.sh (KIP-664), and fencing. Successful results are shown even if others fail.
Not implemented: ending a prepared transaction, which needs the data of the program that prepared it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kclient.admin import HangingTransaction, TransactionState
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.expansion import expanded
from kclient.cli.results import raise_if, succeeded
from kclient.cli.text import moment, named, partitions, seconds
from kclient.types import TopicPartition

app = App(help="List and describe transactions; find and abort hanging ones; fence producers.")

Ids = Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID", show_default=False)]
Broker = Annotated[int | None, typer.Option("--broker", metavar="ID", help="Ask this replica instead of the leaders.")]


@app.command("list")
def list_transactions(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Only ids in this state, such as Ongoing or Empty; repeatable."),
    ] = None,
    producer_id: Annotated[
        list[int] | None,
        typer.Option("--producer-id", metavar="N", help="Only the id of this producer id; repeatable."),
    ] = None,
    longer_than: Annotated[
        str | None,
        typer.Option(
            "--longer-than", metavar="PT1M", help="Only transactions that began at least this long ago: ISO 8601."
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", metavar="REGEX", help="Only ids that this expression matches entirely (RE2)."),
    ] = None,
    json: Json = False,
) -> None:
    """List the transactional ids of the cluster."""
    states = [named(TransactionState, text, "--state") for text in state or ()]
    duration = None if longer_than is None else seconds(longer_than, "--longer-than")
    with admin(servers, properties, settings) as client:
        found, error = succeeded(
            lambda: client.list_transactions(
                states=states,
                producer_ids=producer_id or (),
                min_duration=duration,
                transactional_id_pattern=pattern,
            )
        )
    if json:
        output.as_json(found)
    else:
        columns = ["id", "state", "producer id", "coordinator"]
        rows = (
            (each.transactional_id, each.state.value, each.producer_id, each.coordinator) for each in found.values()
        )
        output.table(columns, rows, numbers=columns[2:])
    raise_if(error)


@app.command()
def describe(
    ids: Ids, servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """Show the state of transactional ids, and the partitions of their transactions."""
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.describe_transactions(ids))
    if json:
        output.as_json(found)
    else:
        columns = ["id", "state", "producer id", "epoch", "timeout ms", "began", "coordinator", "partitions"]
        rows = (
            (
                each.transactional_id,
                each.state.value,
                each.producer_id,
                each.producer_epoch,
                each.timeout_ms,
                None if each.start_timestamp is None else moment(each.start_timestamp),
                each.coordinator.node_id,
                " ".join(map(str, each.partitions)),
            )
            for each in found.values()
        )
        output.table(columns, rows, numbers=["producer id", "epoch", "timeout ms", "coordinator"])
    raise_if(error)


@app.command("describe-producers")
def describe_producers(
    where: Annotated[list[str], typer.Argument(metavar="TOPIC[:PARTITION,...]", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    broker: Broker = None,
    json: Json = False,
) -> None:
    """Show the recent producers of partitions, and where their open transactions begin."""
    with admin(servers, properties, settings) as client:
        keys = expanded(client, (each for text in where for each in partitions(text)))
        found, error = succeeded(lambda: client.describe_producers(keys, broker_id=broker))
    columns = ["topic", "partition", "producer id", "epoch", "coordinator epoch", "last sequence", "last written"]
    columns.append("transaction start")
    rows = [
        (
            *key,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            moment(each.last_timestamp),
            each.transaction_start_offset,
        )
        for key, producers in found.items()
        for each in producers
    ]
    if json:
        output.as_json([dict(zip(columns, row)) for row in rows])
    else:
        output.table(columns, rows, numbers=[name for name in columns[1:] if name != "last written"])
    raise_if(error)


@app.command("find-hanging")
def find_hanging(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="Search only this topic; repeatable. Default: all topics."),
    ] = None,
    broker: Annotated[
        int | None, typer.Option("--broker", metavar="ID", help="Search only replicas of this broker.")
    ] = None,
    max_timeout: Annotated[
        str,
        typer.Option(
            "--max-timeout",
            metavar="PT15M",
            help="The brokers' transaction.max.timeout.ms: more recent transactions do not hang.",
        ),
    ] = "PT15M",
    json: Json = False,
) -> None:
    """Find open transactions that their coordinators will not end; read_committed consumers wait at them."""
    oldest = seconds(max_timeout, "--max-timeout")
    with admin(servers, properties, settings) as client:
        found = client.find_hanging_transactions(
            topics=topics or None, broker_id=broker, max_transaction_timeout=oldest
        )
    if json:
        output.as_json(found)
        return
    columns = ["topic", "partition", "start offset", "producer id", "epoch", "coordinator epoch", "last written", "id"]
    output.table(columns, map(_hanging, found), numbers=columns[1:6])
    if found:
        output.remark("kclient transactions abort TOPIC:PARTITION --start-offset N ends one")


@app.command()
def abort(
    where: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", metavar="N", help="Its first offset, as shown by find-hanging.")
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option("--producer-id", metavar="N", help="The id of its producer.")
    ] = None,
    producer_epoch: Annotated[
        int | None, typer.Option("--producer-epoch", metavar="N", help="The epoch of its producer.")
    ] = None,
    coordinator_epoch: Annotated[
        int | None,
        typer.Option(
            "--coordinator-epoch",
            metavar="N",
            help="The coordinator epoch of the producer's last marker; 0 without one.",
        ),
    ] = None,
) -> None:
    """Abort a hanging transaction in one partition; aborting one that does not hang loses records."""
    found = partitions(where)
    if len(found) != 1 or isinstance(found[0], str):
        raise typer.BadParameter(f"{where!r} is not TOPIC:PARTITION")
    (key,) = found
    with admin(servers, properties, settings) as client:
        client.abort_transaction(
            TopicPartition(*key),
            start_offset=start_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )
    output.table(["aborted in", "partition"], [key], numbers=["partition"])


@app.command()
def fence(
    ids: Ids, servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """Fence the producers of transactional ids, and abort their open transactions."""
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.fence_producers(ids))
    if json:
        output.as_json(found)
    else:
        rows = ((name, each.producer_id, each.epoch) for name, each in found.items())
        output.table(["fenced", "producer id", "epoch"], rows, numbers=["producer id", "epoch"])
    raise_if(error)


def _hanging(found: HangingTransaction) -> tuple[object, ...]:
    producer = found.producer
    return (
        *found.partition,
        found.start_offset,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        moment(producer.last_timestamp),
        found.transactional_id,
    )
