"""`kclient quotas list|set|delete`: limits of users, client ids and IP addresses (KIP-13, KIP-546)."""

from __future__ import annotations

from typing import Annotated

import typer

from kclient.admin import QuotaEntity, QuotaFilter
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin

app = App(help="List, set and delete client quotas.")

User = Annotated[str | None, typer.Option("--user", metavar="USER", help="A user.")]
DefaultUser = Annotated[bool, typer.Option("--default-user", help="All users without a quota of their own.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id.")]
DefaultClientId = Annotated[bool, typer.Option("--default-client-id", help="All other client ids.")]
Ip = Annotated[str | None, typer.Option("--ip", metavar="IP", help="An IP address.")]
DefaultIp = Annotated[bool, typer.Option("--default-ip", help="All other addresses.")]


@app.command("list")
def list_quotas(
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    json: Json = False,
) -> None:
    """List the quotas of the cluster, or those of some entities."""
    wanted = QuotaFilter(
        _name(user, default_user, "--user"),
        _name(client_id, default_client_id, "--client-id"),
        _name(ip, default_ip, "--ip"),
    )
    with admin(servers, properties, settings) as client:
        found = client.describe_client_quotas(wanted)
    rows = [(entity, name, f"{limit:g}") for entity, quotas in found.items() for name, limit in quotas.items()]
    if json:
        output.as_json([{"entity": entity, "quotas": quotas} for entity, quotas in found.items()])
    else:
        output.table(["entity", "quota", "limit"], rows, numbers=["limit"])


@app.command("set")
def set_quotas(
    limits: Annotated[list[str], typer.Argument(metavar="QUOTA=LIMIT", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
) -> None:
    """Set quotas: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate, or for an
    address connection_creation_rate.
    """
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    wanted = dict(map(_limit, limits))
    with admin(servers, properties, settings) as client:
        client.alter_client_quotas({entity: wanted})
    output.table(["entity", "quota", "limit"], ((entity, name, f"{limit:g}") for name, limit in wanted.items()))


@app.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="QUOTA", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
) -> None:
    """Delete quotas by their names."""
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    with admin(servers, properties, settings) as client:
        client.alter_client_quotas({entity: dict.fromkeys(names)})
    output.table(["entity", "deleted"], ((entity, name) for name in names))


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> QuotaEntity:
    parts = (
        _name(user, default_user, "--user"),
        _name(client_id, default_client_id, "--client-id"),
        _name(ip, default_ip, "--ip"),
    )
    if parts == (None, None, None):
        raise typer.BadParameter("name an entity: --user, --client-id, both, or --ip")
    return QuotaEntity(*parts)


def _name(name: str | None, default: bool, option: str) -> str | None:
    """Return the name of an entity, "" for the default, or None if neither is given."""
    if name is not None and default:
        raise typer.BadParameter(f"{option} and --default-{option[2:]} exclude each other", param_hint=option)
    return "" if default else name


def _limit(text: str) -> tuple[str, float]:
    name, _, limit = text.partition("=")
    try:
        return name, float(limit)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not QUOTA=LIMIT, such as producer_byte_rate=1048576") from None
