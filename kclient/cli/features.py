"""`kclient features describe|upgrade|downgrade|disable`: feature levels, as by Kafka's kafka-features.sh (KIP-584).

Not implemented: the levels that belong to a release, which is knowledge of the brokers' release, not of the protocol.
"""

from __future__ import annotations

from typing import Annotated

import typer

from kclient.admin import FeatureUpdate, UpgradeType
from kclient.cli import output
from kclient.cli.app import App
from kclient.cli.connection import Json, Properties, Servers, Settings, admin

app = App(help="Show and change the feature levels of the cluster.")

Levels = Annotated[list[str], typer.Argument(metavar="FEATURE=LEVEL", show_default=False)]
Unsafe = Annotated[bool, typer.Option("--unsafe", help="Even if metadata are lost.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check whether it is possible.")]


@app.command()
def describe(
    broker: Annotated[int | None, typer.Option("--broker", metavar="ID", help="Ask this broker. Default: any.")] = None,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Show each feature: the levels that a broker supports, and the one that the cluster uses; 0 is none."""
    with admin(servers, properties, settings) as client:
        found = client.describe_features(node_id=broker)
    if json:
        output.as_json(found)
        return
    finalized = {name: levels.max_version_level for name, levels in found.finalized_features.items()}
    rows = (
        (name, *supported, finalized.get(name, 0), found.finalized_features_epoch)
        for name, supported in found.supported_features.items()
    )
    columns = ["feature", "lowest", "highest", "finalized", "epoch"]
    output.table(columns, rows, numbers=columns[1:])


@app.command()
def upgrade(
    levels: Levels,
    dry_run: DryRun = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Raise the levels of features; all of them, or none."""
    _update({name: FeatureUpdate(level) for name, level in map(_level, levels)}, dry_run, servers, properties, settings)


@app.command()
def downgrade(
    levels: Levels,
    unsafe: Unsafe = False,
    dry_run: DryRun = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Lower the levels of features; all of them, or none."""
    kind = _downgrade(unsafe)
    updates = {name: FeatureUpdate(level, kind) for name, level in map(_level, levels)}
    _update(updates, dry_run, servers, properties, settings)


@app.command()
def disable(
    names: Annotated[list[str], typer.Argument(metavar="FEATURE", show_default=False)],
    unsafe: Unsafe = False,
    dry_run: DryRun = False,
    servers: Servers = None,
    properties: Properties = None,
    settings: Settings = None,
) -> None:
    """Disable features; all of them, or none."""
    kind = _downgrade(unsafe)
    _update({name: FeatureUpdate(0, kind) for name in names}, dry_run, servers, properties, settings)


def _update(
    updates: dict[str, FeatureUpdate], dry_run: bool, servers: Servers, properties: Properties, settings: Settings
) -> None:
    with admin(servers, properties, settings) as client:
        client.update_features(updates, validate_only=dry_run)
    rows = ((name, each.max_version_level) for name, each in updates.items())
    output.table(["possible" if dry_run else "changed", "level"], rows, numbers=["level"])


def _downgrade(unsafe: bool) -> UpgradeType:
    return UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE


def _level(text: str) -> tuple[str, int]:
    name, _, level = text.partition("=")
    if not name or not level.isdecimal():
        raise typer.BadParameter(f"{text!r} is not FEATURE=LEVEL, such as transaction.version=2")
    return name, int(level)
