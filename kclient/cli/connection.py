"""How a command says which cluster it means, and with which client options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from kclient._properties import read_properties
from kclient.admin import Admin
from kclient.config import AdminConfig, ClientConfig, dotted_name

C = TypeVar("C")


def _or_of_all(context: typer.Context, servers: str | None) -> str | None:
    """What stands after the command's name, else what stands before it or in the environment."""
    return servers or context.find_root().params.get("servers")


_WHERE = {"metavar": "HOST:PORT,...", "help": "Where to find the cluster; localhost:9092 if nothing says otherwise."}

RootServers = Annotated[
    str | None, typer.Option("--bootstrap-servers", "-b", envvar="KCLIENT_BOOTSTRAP_SERVERS", **_WHERE)
]
Servers = Annotated[str | None, typer.Option("--bootstrap-servers", "-b", callback=_or_of_all, **_WHERE)]
Properties = Annotated[
    Path | None,
    typer.Option("--properties", exists=True, dir_okay=False, help="A .properties file with Kafka's option names."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="OPTION=VALUE", help="A client option, as request.timeout.ms=5000; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def options(
    config: type[ClientConfig], servers: str | None, properties: Path | None, settings: Iterable[str] | None
) -> dict[str, Any]:
    """Dotted options of a client: the file first, then --set, then --bootstrap-servers.

    Raises:
        typer.BadParameter: a --set that is not OPTION=VALUE.
    """
    found: dict[str, Any] = dict(read_properties(properties)) if properties else {}
    for setting in settings or ():
        name, separator, value = setting.partition("=")
        if not separator:
            raise typer.BadParameter(f"{setting!r} is not OPTION=VALUE", param_hint="--set")
        found[dotted_name(config, name) if name in config.__struct_fields__ else name] = value
    if servers:
        found["bootstrap.servers"] = servers
    return found


def admin(servers: str | None, properties: Path | None, settings: Iterable[str] | None) -> Admin:
    """An admin client for one command."""
    return Admin.from_properties(options(AdminConfig, servers, properties, settings))
