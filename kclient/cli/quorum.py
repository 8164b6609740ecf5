"""`kclient quorum status|replication|add-voter|remove-voter`, as by Kafka's kafka-metadata-quorum.sh (KIP-853).

Not implemented: reading the id and the directory of a new voter from the files of the controller, which may be on
another machine; `replication` shows both.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from kclient._text import id_from_text, id_text
from kclient.admin import QuorumInfo, QuorumReplica, RaftVoterEndpoint
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.text import moment

app = App(help="Show the quorum of controllers; add and remove voters.")

Voter = Annotated[int, typer.Argument(metavar="ID", help="The id of the controller.", show_default=False)]
Directory = Annotated[
    str, typer.Argument(metavar="DIRECTORY_ID", help="The id of its metadata directory.", show_default=False)
]


@app.command()
def status(
    servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """Show the active controller, the voters and the observers."""
    with admin(servers, properties, settings) as client:
        found = client.describe_metadata_quorum()
        cluster_id = client.describe_cluster().cluster_id
    if json:
        output.as_json({"cluster_id": cluster_id, **{name: getattr(found, name) for name in found.__struct_fields__}})
        return
    lag, lag_ms = _max_lag(found)
    rows = [
        ("cluster id", cluster_id),
        ("leader", found.leader_id),
        ("leader epoch", found.leader_epoch),
        ("high watermark", found.high_watermark),
        ("highest lag of a voter", lag),
        ("highest lag of a voter, ms", lag_ms),
        ("voters", " ".join(_named(each, found) for each in found.voters)),
        ("observers", " ".join(_named(each, found) for each in found.observers)),
    ]
    output.table(["quorum", "value"], rows)


@app.command()
def replication(
    servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """Show how far each controller and broker has followed the metadata."""
    with admin(servers, properties, settings) as client:
        found = client.describe_metadata_quorum()
    end = max((each.log_end_offset for each in found.voters if each.replica_id == found.leader_id), default=None)
    roles = [("leader" if each.replica_id == found.leader_id else "follower", each) for each in found.voters]
    roles.sort(key=lambda role: role[0] != "leader")
    roles += [("observer", each) for each in found.observers]
    columns = ["node", "directory id", "log end offset", "lag", "last fetch", "last caught up", "role"]
    rows = [
        (
            each.replica_id,
            None if each.directory_id is None else id_text(each.directory_id),
            each.log_end_offset,
            None if end is None else end - each.log_end_offset,
            None if each.last_fetch_timestamp is None else moment(each.last_fetch_timestamp),
            None if each.last_caught_up_timestamp is None else moment(each.last_caught_up_timestamp),
            role,
        )
        for role, each in roles
    ]
    if json:
        output.as_json([dict(zip(columns, row)) for row in rows])
    else:
        output.table(columns, rows, numbers=["node", "log end offset", "lag"])


@app.command("add-voter")
def add_voter(
    voter: Voter,
    directory: Directory,
    endpoints: Annotated[
        list[str],
        typer.Option("--endpoint", metavar="LISTENER://HOST:PORT", help="An address of the controller; repeatable."),
    ],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Let a controller that follows as an observer vote."""
    wanted = [_endpoint(text) for text in endpoints]
    with admin(servers, properties, settings) as client:
        client.add_raft_voter(voter, _directory(directory), wanted)
    output.table(["added", "directory id"], [(voter, directory)], numbers=["added"])


@app.command("remove-voter")
def remove_voter(
    voter: Voter,
    directory: Directory,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Let a controller no longer vote."""
    with admin(servers, properties, settings) as client:
        client.remove_raft_voter(voter, _directory(directory))
    output.table(["removed", "directory id"], [(voter, directory)], numbers=["removed"])


def _max_lag(found: QuorumInfo) -> tuple[int | None, int | None]:
    """Return the lag of the voter that is furthest behind the leader, in offsets and in milliseconds."""
    leader = next((each for each in found.voters if each.replica_id == found.leader_id), None)
    if leader is None:
        return None, None
    last = min(found.voters, key=lambda each: each.log_end_offset)
    lag = leader.log_end_offset - last.log_end_offset
    if last is leader:
        return lag, 0
    if leader.last_caught_up_timestamp is None or last.last_caught_up_timestamp is None:
        return lag, None
    return lag, leader.last_caught_up_timestamp - last.last_caught_up_timestamp


def _named(replica: QuorumReplica, quorum: QuorumInfo) -> str:
    directory = "" if replica.directory_id is None else f"-{id_text(replica.directory_id)}"
    addresses = ",".join(map(str, quorum.nodes.get(replica.replica_id, ())))
    return f"{replica.replica_id}{directory}{f'@{addresses}' if addresses else ''}"


def _directory(text: str) -> UUID:
    try:
        return id_from_text(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="DIRECTORY_ID") from None


def _endpoint(text: str) -> RaftVoterEndpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    if not listener or not host or not port.isdecimal():
        raise typer.BadParameter(f"{text!r} is not LISTENER://HOST:PORT", param_hint="--endpoint")
    return RaftVoterEndpoint(listener, host.removeprefix("[").removesuffix("]"), int(port))
