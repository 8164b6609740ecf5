"""The options that name the cluster and set client options, and the clients that commands make of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from kclient._properties import read_properties
from kclient.admin import Admin
from kclient.cli.profiles import profile_options
from kclient.cli.timeouts import with_timeout
from kclient.config import AdminConfig, ClientConfig, dotted_name

BOOTSTRAP_VARIABLE = "KCLIENT_BOOTSTRAP_SERVERS"
"""The environment variable that names the cluster if neither the command line nor a file does."""

_SERVERS = "bootstrap.servers"


def _or_of_all(context: typer.Context, servers: str | None) -> str | None:
    """Return the option after the command's name, or the one before it."""
    return servers or context.find_root().params.get("servers")


_WHERE = {
    "metavar": "HOST:PORT,...",
    "help": "Brokers of the cluster. By default bootstrap.servers of --set, --properties or --profile; without one, "
    f"${BOOTSTRAP_VARIABLE}, or localhost:9092.",
}

RootServers = Annotated[str | None, typer.Option("--bootstrap-servers", "-b", **_WHERE)]
Servers = Annotated[str | None, typer.Option("--bootstrap-servers", "-b", callback=_or_of_all, **_WHERE)]
Properties = Annotated[
    Path | None,
    typer.Option(
        "--properties", metavar="FILE", exists=True, dir_okay=False, help="A .properties file with client options."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="OPTION=VALUE", help="A client option, such as request.timeout.ms=5000; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def options(
    config: type[ClientConfig], servers: str | None, properties: Path | None, settings: Iterable[str] | None
) -> dict[str, Any]:
    """Return the options of a client, by Kafka's dotted names.

    --set and --bootstrap-servers override the file or the profile, which overrides the environment.

    Raises:
        typer.BadParameter: a --set is not OPTION=VALUE, or names another cluster than --bootstrap-servers does.
    """
    given = given_settings(config, settings)
    if servers and _addresses(given.get(_SERVERS, servers)) != _addresses(servers):
        raise typer.BadParameter(
            f"--bootstrap-servers names {servers}, and --set names {given[_SERVERS]}; name one cluster",
            param_hint="--set",
        )
    found: dict[str, Any] = {}
    if environment := os.environ.get(BOOTSTRAP_VARIABLE):
        found[_SERVERS] = environment
    found |= profile_options(config, has_properties=properties is not None)
    if properties:
        found |= read_properties(properties)
    found |= given
    if servers:
        found[_SERVERS] = servers
    return found


def given_settings(config: type[ClientConfig], settings: Iterable[str] | None) -> dict[str, str]:
    """Return the options of --set, by Kafka's dotted names.

    Raises:
        typer.BadParameter: one is not OPTION=VALUE.
    """
    found = {}
    for setting in settings or ():
        name, separator, value = setting.partition("=")
        if not separator:
            raise typer.BadParameter(f"{setting!r} is not OPTION=VALUE", param_hint="--set")
        found[dotted_name(config, name) if name in config.__struct_fields__ else name] = value
    return found


def _addresses(servers: str) -> set[str]:
    return {address.strip() for address in servers.split(",")}


def admin(servers: str | None, properties: Path | None, settings: Iterable[str] | None) -> Admin:
    """Return an admin client for one command, whose calls have the command's timeout."""
    return Admin.from_properties(with_timeout(options(AdminConfig, servers, properties, settings)))
