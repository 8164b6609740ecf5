"""`kclient leaders elect`: elections of partition leaders, as by Kafka's kafka-leader-election.sh (KIP-460)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from kclient.admin import ElectionType
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.expansion import expanded
from kclient.cli.results import raise_if, succeeded
from kclient.cli.text import partitions
from kclient.types import TopicPartition

app = App(help="Elect the leaders of partitions.")


class _Partition(msgspec.Struct):
    topic: str
    partition: int


class _File(msgspec.Struct):
    partitions: list[_Partition]


@app.command()
def elect(
    where: Annotated[list[str] | None, typer.Argument(metavar="TOPIC[:PARTITION,...]", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All partitions that need such an election.")] = False,
    from_file: Annotated[
        Path | None,
        typer.Option(
            "--from-file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Partitions, in the JSON of Kafka's own tool.",
        ),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean", help="For partitions without a leader: any replica that is alive, which may lose records."
        ),
    ] = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Make the preferred replica, which is the first one, the leader again; with --unclean any replica."""
    if sum(map(bool, (where, everything, from_file))) != 1:
        raise typer.BadParameter("name partitions, or pass --all or --from-file")
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    with admin(servers, properties, settings) as client:
        wanted = _read(from_file) if from_file else None
        if where:
            wanted = expanded(client, (each for text in where for each in partitions(text)))
        found, error = succeeded(lambda: client.elect_leaders(kind, wanted))
    if json:
        output.as_json([{**key._asdict(), "elected": done} for key, done in found.items()])
    else:
        rows = ((*key, "elected" if done else "not needed") for key, done in found.items())
        output.table(["topic", "partition", "election"], rows, numbers=["partition"])
    raise_if(error)


def _read(file: Path) -> list[TopicPartition]:
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_File)
    except msgspec.DecodeError as error:
        raise typer.BadParameter(f"{file} is not usable: {error}", param_hint="--from-file") from None
    return [TopicPartition(each.topic, each.partition) for each in found.partitions]
