"""`kclient cluster describe|brokers|unregister`, as by Kafka's kafka-cluster.sh."""

from __future__ import annotations

from typing import Annotated

import typer

from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin

app = App(help="Show the cluster and its brokers; remove brokers that will not return.")


@app.command()
def describe(
    servers: Servers = None, properties: Properties = None, settings: Settings = None, json: Json = False
) -> None:
    """Show the id of the cluster, and how many brokers are alive."""
    with admin(servers, properties, settings) as client:
        found = client.describe_cluster()
    if json:
        output.as_json(found)
    else:
        output.table(["cluster id", "brokers"], [(found.cluster_id, len(found.brokers))], numbers=["brokers"])


@app.command()
def brokers(
    fenced: Annotated[bool, typer.Option("--fenced", help="Also registered brokers that are not alive.")] = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """List the brokers: address, rack and state."""
    with admin(servers, properties, settings) as client:
        found = client.describe_cluster(include_fenced_brokers=fenced).brokers
    if json:
        output.as_json(list(found.values()))
        return
    rows = (
        (node.node_id, node.host, node.port, node.rack, "fenced" if node.is_fenced else "alive")
        for node in found.values()
    )
    output.table(["broker", "host", "port", "rack", "state"], rows, numbers=["broker", "port"])


@app.command()
def unregister(
    broker: Annotated[int, typer.Argument(metavar="ID", help="The id of the broker.", show_default=False)],
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Remove the registration of a broker that will not return; reassign its replicas first."""
    with admin(servers, properties, settings) as client:
        client.unregister_broker(broker)
    output.table(["unregistered"], [(broker,)], numbers=["unregistered"])
