"""How long the calls of a command may take: `--timeout`, by default 15 s.

The client's own default of 60 s suits a program that runs on its own; who waits at a terminal wants to know sooner that
no broker responds. Elsewhere: `produce` and `consume`, which wait for records and have no such limit.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Annotated, Any

import typer

DEFAULT_SECONDS = 15.0

_OPTION = "default.api.timeout.ms"
_chosen: ContextVar[float | None] = ContextVar("timeout", default=None)


def _choose(value: float | None) -> float | None:
    if value is not None and not value >= 0:
        raise typer.BadParameter(f"{value:g} seconds are no time", param_hint="--timeout")
    _chosen.set(value)
    return value


Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help=f"How long each call to the cluster may take. By default {_OPTION} of --set, --properties or --profile; "
        f"without one, {DEFAULT_SECONDS:g}.",
        callback=_choose,
    ),
]


def timeout_seconds() -> float:
    """Return how long something that consists of several calls may take: the option, or the default."""
    chosen = _chosen.get()
    return DEFAULT_SECONDS if chosen is None else chosen


def with_timeout(options: dict[str, Any]) -> dict[str, Any]:
    """Return client options by Kafka's dotted names, with the timeout of the command."""
    chosen = _chosen.get()
    if chosen is not None:
        return {**options, _OPTION: int(chosen * 1000)}
    return {_OPTION: int(DEFAULT_SECONDS * 1000), **options}
