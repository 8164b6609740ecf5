"""The tree of commands for typer, the options that all commands share, and `--version`."""

from __future__ import annotations

import platform
from typing import Annotated

import typer

from kclient import __version__, records
from kclient.cli import (
    acls,
    cluster,
    configs,
    consume,
    features,
    groups,
    leaders,
    log_dirs,
    produce,
    quorum,
    quotas,
    reassignments,
    tokens,
    topics,
    transactions,
    users,
)
from kclient.cli.app import App
from kclient.cli.connection import RootServers
from kclient.cli.profiles import Profile
from kclient.security.implementation import tls_implementation

app = App(
    name="kclient",
    help="Produce, consume, and administer any Kafka cluster.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("produce", has_timeout=False)(produce.produce)
app.command("consume", has_timeout=False)(consume.consume)
app.add_typer(topics.app, name="topics")
app.add_typer(configs.app, name="configs")
app.add_typer(groups.app, name="groups")
app.add_typer(transactions.app, name="transactions")
app.add_typer(reassignments.app, name="reassignments")
app.add_typer(leaders.app, name="leaders")
app.add_typer(log_dirs.app, name="log-dirs")
app.add_typer(cluster.app, name="cluster")
app.add_typer(quorum.app, name="quorum")
app.add_typer(features.app, name="features")
app.add_typer(acls.app, name="acls")
app.add_typer(users.app, name="users")
app.add_typer(tokens.app, name="tokens")
app.add_typer(quotas.app, name="quotas")


def _version(wanted: bool) -> None:
    if wanted:
        twins = f"{records.IMPLEMENTATION} modules, {tls_implementation()} TLS"
        typer.echo(f"kclient {__version__} ({twins}, Python {platform.python_version()})")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    servers: RootServers = None,
    profile: Profile = None,
) -> None:
    """Produce, consume, and administer any Kafka cluster."""
