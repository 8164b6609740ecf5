"""The tree of commands, as far as it needs no broker."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from kclient.cli.commands import app


@pytest.mark.parametrize("command", [[], ["consume"], ["groups"], ["groups", "reset"]])
def test_help_has_a_short_name(command: list[str]) -> None:
    short, long = (CliRunner().invoke(app, [*command, option]) for option in ("-h", "--help"))
    assert (short.exit_code, short.output) == (0, long.output)
    assert "Usage: kclient" in short.output
