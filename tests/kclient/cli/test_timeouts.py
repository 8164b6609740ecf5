"""`--timeout` of commands, beside the client option that it sets."""

from __future__ import annotations

import pytest
import typer.main
from typer.testing import CliRunner

from kclient.cli import timeouts
from kclient.cli.app import App
from kclient.cli.commands import app
from kclient.cli.timeouts import timeout_seconds, with_timeout


def run(*arguments: str) -> tuple[float, dict[str, object], dict[str, object]]:
    """What a command with these arguments makes of options without and with the client option."""
    made = App()
    found: list[tuple[float, dict[str, object], dict[str, object]]] = []

    @made.command()
    def command() -> None:
        found.append((timeout_seconds(), with_timeout({}), with_timeout({"default.api.timeout.ms": "60000"})))

    result = CliRunner().invoke(made, arguments)
    assert result.exit_code == 0, result.output
    return found[0]


def test_a_command_waits_fifteen_seconds_unless_options_say_otherwise() -> None:
    seconds, plain, given = run()
    assert seconds == timeouts.DEFAULT_SECONDS == 15
    assert plain == {"default.api.timeout.ms": 15_000}
    assert given == {"default.api.timeout.ms": "60000"}


def test_the_option_overrides_all_others() -> None:
    seconds, plain, given = run("--timeout", "2.5")
    assert seconds == 2.5
    assert plain == given == {"default.api.timeout.ms": 2_500}


def test_a_timeout_does_not_last_beyond_its_command() -> None:
    run("--timeout", "2")
    assert run()[0] == 15


@pytest.mark.parametrize("value", ["-1", "soon"])
def test_a_timeout_is_a_number_of_seconds(value: str) -> None:
    result = CliRunner().invoke(app, ["topics", "list", "--timeout", value])
    assert result.exit_code == 2
    assert "--timeout" in result.output


def test_commands_that_wait_for_records_have_no_timeout() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    without = {
        name
        for name, command in commands.items()
        if not hasattr(command, "commands") and "--timeout" not in {o for p in command.params for o in p.opts}
    }
    assert without == {"produce", "consume"}
    for group in commands.values():
        for command in getattr(group, "commands", {}).values():
            assert "--timeout" in {option for param in command.params for option in param.opts}, command.name
