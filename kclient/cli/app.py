"""The typer application to which commands are added.

Each of its commands has `--profile`, and `--timeout` unless it waits for records. Its `--help` shows no type for flags,
which take no value, nor for arguments, whose names say what they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from kclient.cli.profiles import Profile
from kclient.cli.timeouts import Timeout

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

    def command(self, name: str | None = None, *, has_timeout: bool = True, **settings: Any) -> Callable[[F], F]:
        """See typer.Typer.command.

        Parameters:
            has_timeout: whether the command has `--timeout`.
        """
        add = super().command(name, cls=Command, **settings)
        shared: dict[str, Any] = {"timeout": Timeout, "profile": Profile} if has_timeout else {"profile": Profile}

        def decorate(function: F) -> F:
            add(_with_options(function, shared))
            return function

        return decorate


def _with_options(function: F, shared: dict[str, Any]) -> F:
    """Return a command with further options, whose callbacks keep the values."""
    hints = get_type_hints(function, include_extras=True) | shared
    signature = inspect.signature(function)
    own = [each.replace(annotation=hints[name]) for name, each in signature.parameters.items()]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in shared.items()
    ]

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **{name: value for name, value in options.items() if name not in shared})

    run.__annotations__ = hints
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return cast("F", run)
