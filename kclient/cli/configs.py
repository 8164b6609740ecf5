"""`kclient configs list|describe|set|delete`, for topics and brokers."""

from __future__ import annotations

from typing import Annotated

import typer

from kclient.admin import Admin, AlterConfig, ConfigResource, ResourceType
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin
from kclient.errors import BrokerNotAvailableError

app = App(help="Describe and change the settings of topics and brokers; list what has settings.")

Topic = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="The topic.")]
Broker = Annotated[
    str | None,
    typer.Option("--broker", metavar="ID", help='The broker, by its id; "default" for the defaults of all brokers.'),
]


def _resource(topic: str | None, broker: str | None) -> ConfigResource:
    if (topic is None) == (broker is None):
        raise typer.BadParameter("pass either --topic or --broker")
    if topic is not None:
        return ConfigResource.topic(topic)
    if broker == "default":
        return ConfigResource.broker()
    if not broker or not broker.isdecimal():
        raise typer.BadParameter(f"{broker!r} is neither a number nor 'default'", param_hint="--broker")
    return ConfigResource.broker(int(broker))


def _check_broker(client: Admin, resource: ConfigResource) -> None:
    """Raise if there is no such broker; the call itself would wait for it to come up."""
    if resource.type is not ResourceType.BROKER or not resource.name:
        return
    brokers = client.describe_cluster().brokers
    if int(resource.name) not in brokers:
        there = ", ".join(map(str, sorted(brokers)))
        raise BrokerNotAvailableError(f"the cluster has no broker {resource.name}; there is {there}")


@app.command("list")
def list_resources(
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="Only topic, broker, broker-logger, client-metrics or group; repeatable."
        ),
    ] = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """List the topics, brokers, groups and client metrics that have settings."""
    wanted = [_type(text) for text in types or ()]
    with admin(servers, properties, settings) as client:
        found = client.list_config_resources(wanted)
    if json:
        output.as_json(found)
    else:
        output.table(["type", "name"], ((_type_name(each.type), each.name) for each in found))


@app.command()
def describe(
    topic: Topic = None,
    broker: Broker = None,
    everything: Annotated[bool, typer.Option("--all", help="Also show defaults.")] = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Show the settings of a topic or broker, and the source of each value."""
    resource = _resource(topic, broker)
    with admin(servers, properties, settings) as client:
        _check_broker(client, resource)
        found = client.describe_configs([resource])[resource]
    shown = {name: entry for name, entry in found.items() if everything or not entry.is_default}
    if json:
        output.as_json(shown)
        return
    rows = (
        (entry.name, "(hidden)" if entry.is_sensitive else entry.value, entry.source.name.lower())
        for entry in shown.values()
    )
    output.table(["setting", "value", "source"], rows)


@app.command("set")
def set_configs(
    values: Annotated[list[str], typer.Argument(metavar="NAME=VALUE", show_default=False)],
    topic: Topic = None,
    broker: Broker = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Change settings; the others stay as they are."""
    changes = []
    for text in values:
        name, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE")
        changes.append(AlterConfig.set(name, value))
    _alter(_resource(topic, broker), changes, servers, properties, settings)


@app.command("delete")
def delete_configs(
    names: Annotated[list[str], typer.Argument(metavar="NAME", show_default=False)],
    topic: Topic = None,
    broker: Broker = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Reset settings to their defaults."""
    _alter(_resource(topic, broker), [AlterConfig.delete(name) for name in names], servers, properties, settings)


def _type(text: str) -> ResourceType:
    for member in ResourceType:
        if text in (_type_name(member), f"{_type_name(member)}s"):
            return member
    names = ", ".join(map(_type_name, ResourceType))
    raise typer.BadParameter(f"there is no {text!r}, only {names}", param_hint="--type")


def _type_name(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", "-")


def _alter(
    resource: ConfigResource,
    changes: list[AlterConfig],
    servers: Servers,
    properties: Properties,
    settings: Settings,
) -> None:
    with admin(servers, properties, settings) as client:
        _check_broker(client, resource)
        client.incremental_alter_configs({resource: changes})
    output.remark(f"changed {len(changes)} setting{'s' if len(changes) > 1 else ''} of {resource}")
