"""The typer application to which commands are added. Its `--help` shows no type for flags, which take no value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])


class _PlainFlags:
    """A command whose flags have an empty metavar."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's options and arguments, with --help."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_PlainFlags, TyperCommand):
    """A command."""


class Group(_PlainFlags, TyperGroup):
    """A group of commands."""


class App(typer.Typer):
    """A typer application whose commands and groups are those above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """See typer.Typer.command."""
        return super().command(name, cls=Command, **settings)
