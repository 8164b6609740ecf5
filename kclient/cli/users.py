"""`kclient users list|set-password|delete`: the users who log in by SCRAM.

A password is read from the terminal, or from a line of standard input; never from the command line, which other users
of the machine can see.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kclient.admin import ScramDeletion, ScramUpsertion
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.cli.results import raise_if, succeeded
from kclient.security.scram import MECHANISMS, MIN_ITERATIONS
from kclient.security.secret import Secret

app = App(help="List users who log in by SCRAM; set their passwords; delete their credentials.")

_DEFAULT = "SCRAM-SHA-512"
Mechanism = Annotated[str, typer.Option("--mechanism", metavar="MECHANISM", help=f"{' or '.join(MECHANISMS)}.")]


@app.command("list")
def list_users(
    users: Annotated[list[str] | None, typer.Argument(metavar="USER", show_default=False)] = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """List the users who have credentials, with their mechanisms."""
    with admin(servers, properties, settings) as client:
        found, error = succeeded(lambda: client.describe_user_scram_credentials(users or None))
    if json:
        output.as_json(found)
    else:
        rows = ((user, each.mechanism, each.iterations) for user, infos in found.items() for each in infos)
        output.table(["user", "mechanism", "iterations"], rows, numbers=["iterations"])
    raise_if(error)


@app.command("set-password")
def set_password(
    user: Annotated[str, typer.Argument(metavar="USER", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    mechanism: Mechanism = _DEFAULT,
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", help="How often the password is hashed: 4096 to 16384.")
    ] = MIN_ITERATIONS,
) -> None:
    """Create a user, or set a new password; it is asked for, or read from standard input."""
    upsertion = ScramUpsertion(user, _password(user), mechanism, iterations)
    with admin(servers, properties, settings) as client:
        client.alter_user_scram_credentials(upsertion)
    output.table(["user", "mechanism"], [(user, mechanism)])


@app.command()
def delete(
    users: Annotated[list[str], typer.Argument(metavar="USER", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    mechanism: Mechanism = _DEFAULT,
) -> None:
    """Delete the credentials of users for one mechanism."""
    with admin(servers, properties, settings) as client:
        deletions = [ScramDeletion(user, mechanism) for user in users]
        deleted, error = succeeded(lambda: client.alter_user_scram_credentials(deletions))
    output.table(["deleted", "mechanism"], ((user, mechanism) for user in deleted))
    raise_if(error)


def _password(user: str) -> Secret:
    if sys.stdin.isatty():
        return Secret(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True, err=True))
    text = sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise typer.BadParameter("standard input has no password in its first line")
    return Secret(text)
