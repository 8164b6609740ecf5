"""The tree of commands, as far as it needs no broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from kclient.cli.commands import app


def words(command: Any) -> Iterator[tuple[str, ...]]:
    """What names a command and each of those below it."""
    yield ()
    for name, each in getattr(command, "commands", {}).items():
        for rest in words(each):
            yield (name, *rest)


COMMANDS = list(words(typer.main.get_command(app)))


def test_all_commands_are_known_here() -> None:
    assert {("produce",), ("topics", "create"), ("groups", "reset"), ("transactions", "abort")} < set(COMMANDS)


@pytest.mark.parametrize("command", [[], ["consume"], ["groups"], ["groups", "reset"]])
def test_help_has_a_short_name(command: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*command, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output)
    assert "Usage: kclient" in short.output


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "kclient")
def test_help_shows_no_type_beside_a_flag_or_an_argument(command: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"}).output
    assert re.search(r"--help +-h +Show this message and exit", shown), shown
    assert "bool" not in shown.lower()
    assert not re.search(r"<\w+(\[\w+\])?>", shown), "the name of an argument says what it is"
