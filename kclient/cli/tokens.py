"""`kclient tokens create|list|renew|expire`: delegation tokens.

Only `create` prints the HMAC, which is the password of a token. The other commands take the id, and get the HMAC from
the cluster, so that it appears neither on the command line, which other users of the machine can see, nor in a log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from kclient.admin import Admin, DelegationToken
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.failures import CommandError
from kclient.cli.text import moment, seconds
from kclient.errors import KafkaError
from kclient.security.secret import Secret

app = App(help="Create, list, renew and expire delegation tokens, with which clients log in by SCRAM.")

Ids = Annotated[list[str], typer.Argument(metavar="TOKEN_ID", show_default=False)]


@app.command()
def create(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="USER:NAME", help="Who clients with the token are; by default who creates it."),
    ] = None,
    renewers: Annotated[
        list[str] | None,
        typer.Option("--renewer", metavar="USER:NAME", help="Who else may renew and expire it; repeatable."),
    ] = None,
    max_lifetime: Annotated[
        str | None,
        typer.Option(
            "--max-lifetime",
            metavar="DURATION",
            help="How long it can be renewed, such as P7D; by default, and at most, for as long as the brokers allow.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Create a token, and print its id and its HMAC, which are user name and password for SCRAM."""
    lifetime = None if max_lifetime is None else seconds(max_lifetime, "--max-lifetime")
    with admin(servers, properties, settings) as client:
        token = client.create_delegation_token(owner=owner, renewers=renewers or (), max_lifetime=lifetime)
    shown = {**_shown(token), "hmac": token.hmac.reveal()}
    if json:
        output.as_json(shown)
    else:
        columns = ["token id", "hmac", "owner", "expires", "at the latest"]
        times = (moment(token.expiry_timestamp), moment(token.max_timestamp))
        output.table(columns, [(token.token_id, token.hmac.reveal(), token.owner, *times)])


@app.command("list")
def list_tokens(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    owners: Annotated[
        list[str] | None,
        typer.Option(
            "--owner",
            metavar="USER:NAME",
            help="Only tokens that this user owns, has requested or may renew; repeatable.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """List the tokens that you own, have requested or may renew, and others if ACLs allow it; without HMACs."""
    with admin(servers, properties, settings) as client:
        found = client.describe_delegation_token(owners or None)
    if json:
        output.as_json([_shown(token) for token in found])
        return
    columns = ["token id", "owner", "requester", "renewers", "issued", "expires", "at the latest"]
    rows = (
        (
            token.token_id,
            token.owner,
            token.requester,
            ",".join(token.renewers),
            *map(moment, (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp)),
        )
        for token in found
    )
    output.table(columns, rows)


@app.command()
def renew(
    token_ids: Ids,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    period: Annotated[
        str | None,
        typer.Option(
            "--period",
            metavar="DURATION",
            help="When it expires, counted from now, such as PT12H; by default, and at "
            "most, for as long as the brokers allow.",
        ),
    ] = None,
) -> None:
    """Let tokens expire later; print when."""
    duration = None if period is None else seconds(period, "--period")
    with admin(servers, properties, settings) as client:
        _change(client, token_ids, lambda hmac: client.renew_delegation_token(hmac, renew_period=duration))


@app.command()
def expire(
    token_ids: Ids,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--after", metavar="DURATION", help="When it expires, counted from now; by default it is removed."
        ),
    ] = None,
) -> None:
    """Remove tokens, or let them expire at a time; print when."""
    duration = None if after is None else seconds(after, "--after")
    with admin(servers, properties, settings) as client:
        _change(client, token_ids, lambda hmac: client.expire_delegation_token(hmac, expiry_period=duration))


def _change(client: Admin, token_ids: list[str], change: Callable[[Secret], int]) -> None:
    """Change tokens by their ids, and print when each expires.

    Raises:
        CommandError: a token does not exist, or the user may not see it, and none is changed; or some changes failed.
    """
    known = {token.token_id: token for token in client.describe_delegation_token()}
    missing = [token_id for token_id in token_ids if token_id not in known]
    if missing:
        raise CommandError(f"there is no delegation token {', '.join(missing)} that you may see")
    changed, failed = [], []
    for token_id in dict.fromkeys(token_ids):
        try:
            changed.append((token_id, moment(change(known[token_id].hmac))))
        except KafkaError as error:
            failed.append(f"{token_id}: {error}")
    output.table(["token id", "expires"], changed)
    if failed:
        raise CommandError("\n".join(failed))


def _shown(token: DelegationToken) -> dict[str, object]:
    """Return what JSON shows of a token: everything but its HMAC."""
    return {name: value for name, value in msgspec.structs.asdict(token).items() if name != "hmac"}
