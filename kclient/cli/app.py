"""The typer application to which commands are added.

Each of its commands has `--profile`. Its `--help` shows no type for flags, which take no value, nor for arguments,
whose names say what they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from kclient.cli.profiles import Profile

F = TypeVar("F", bound=Callable[..., Any])


def _no_type(ctx: Any) -> None:
    return None


class _PlainHelp:
    """A command whose help shows no types beside flags and arguments."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the command's options and arguments, with --help."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.param_type_name == "argument":
                param.display_type_rich = _no_type
        return params


class Command(_PlainHelp, TyperCommand):
    """A command."""


class Group(_PlainHelp, TyperGroup):
    """A group of commands."""


class App(typer.Typer):
    """A typer application whose commands and groups are those above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, no_args_is_help=True, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """See typer.Typer.command."""
        add = super().command(name, cls=Command, **settings)

        def decorate(function: F) -> F:
            add(_with_profile(function))
            return function

        return decorate


def _with_profile(function: F) -> F:
    """Return a command with the parameter of --profile, whose callback keeps the value."""
    hints = get_type_hints(function, include_extras=True) | {"profile": Profile}
    signature = inspect.signature(function)
    own = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]
    profile = inspect.Parameter("profile", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Profile)

    @functools.wraps(function)
    def run(*arguments: Any, profile: str | None, **options: Any) -> Any:
        return function(*arguments, **options)

    run.__annotations__ = hints
    run.__signature__ = signature.replace(parameters=[*own, profile])  # type: ignore[attr-defined]
    return cast("F", run)
