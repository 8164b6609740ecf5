"""Profiles: the options of clusters by name, in `config.toml`, for `kclient --profile NAME`.

    [production]
    bootstrap_servers = "kafka-1:9093,kafka-2:9093"
    security_protocol = "SASL_SSL"
    sasl_mechanism = "SCRAM-SHA-512"
    sasl_username = "shop"
    sasl_password = "..."

The file is `$XDG_CONFIG_HOME/kclient/config.toml`, by default `~/.config/kclient/config.toml`. Since it has passwords,
other users of the machine must not be able to read it.
"""

from __future__ import annotations

import os
import stat
import tomllib
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from kclient.config import ClientConfig, dotted_name
from kclient.errors import ConfigError

PROFILE_VARIABLE = "KCLIENT_PROFILE"
"""The environment variable that names the profile if the command line does not."""

_chosen: ContextVar[str | None] = ContextVar("profile", default=None)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def _choose(context: typer.Context, value: str | None) -> str | None:
    # The program is parsed first, and its command last, so an option after the command overrides one before it.
    if value is not None or context.parent is None:
        _chosen.set(value)
    return value


Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help=f"Take client options from this profile of config.toml. By default ${PROFILE_VARIABLE}.",
        callback=_choose,
    ),
]


def profile_options(config: type[ClientConfig], *, has_properties: bool) -> dict[str, Any]:
    """Return the options of the chosen profile, by Kafka's dotted names; none without a profile.

    Parameters:
        config: the options of the command's client.
        has_properties: whether --properties is given; it overrides the profile of the environment.

    Raises:
        typer.BadParameter: both --profile and --properties are given.
        ConfigError: the file cannot be used, or does not have the profile.
    """
    chosen = _chosen.get()
    if has_properties and chosen is not None:
        raise typer.BadParameter("--profile and --properties exclude each other", param_hint="--profile")
    name = chosen or (None if has_properties else os.environ.get(PROFILE_VARIABLE))
    if not name:
        return {}
    path = profiles_path()
    profiles = _read(path)
    if name not in profiles:
        known = f"its profiles are {', '.join(profiles)}" if profiles else "it has none"
        raise ConfigError(f"there is no profile {name!r} in {path}; {known}")
    fields = config.__struct_fields__
    return {dotted_name(config, key) if key in fields else key: value for key, value in _flat(profiles[name])}


def profiles_path() -> Path:
    """Return the path of the file, which may not exist."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "kclient" / "config.toml"


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & _OTHERS:
                raise ConfigError(f"other users may access {path} (mode {mode:04o}); run: chmod 600 {path}")
            found = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"the file of profiles cannot be read: {error}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    for name, profile in found.items():
        if not isinstance(profile, dict):
            raise ConfigError(f"{path}: {name!r} is not in a profile; put it below a line such as [production]")
    return found


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Return the options of a profile; TOML reads Kafka's dotted names as nested tables."""
    return [
        option
        for key, value in table.items()
        for option in (_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)])
    ]
