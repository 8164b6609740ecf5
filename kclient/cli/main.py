"""The entry point: runs the commands, and returns an exit code.

0 success, 1 failure (one line on stderr), 2 wrong command line, 130 interrupted, 143 terminated (SIGTERM). It also
checks that the `cli` extra, which the commands need, is installed.

Not implemented: the commands (`commands`).
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn

from kclient.cli.failures import CommandError
from kclient.errors import AdminError, ConfigError, KafkaError

WRONG_COMMAND_LINE = 2
_INTERRUPTED = 130
_TERMINATED = 143


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        _run()
    except KeyboardInterrupt:
        # While the commands are imported; once they run, typer exits with the same code.
        sys.exit(_INTERRUPTED)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(_TERMINATED)


def _run() -> None:
    try:
        import rich  # noqa: F401 - only to see that it is there
        import typer  # noqa: F401
    except ImportError as missing:
        sys.exit(
            f"kclient: the command line needs {missing.name}; install kclient with the extra cli, or typer and rich"
        )

    from kclient.cli.commands import app
    from kclient.cli.output import show_warnings

    show_warnings()
    # SIGTERM ends a command like Ctrl-C, by an exception, so that its client is closed and leaves its group.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except AdminError as error:
        _fail("\n".join(f"{key}: {each}" for key, each in error.errors.items()))
    except ConfigError as error:
        _fail(str(error), WRONG_COMMAND_LINE)
    except (KafkaError, OSError, CommandError) as error:
        _fail(str(error))


def _fail(text: str, code: int = 1) -> None:
    print(f"kclient: {text}", file=sys.stderr)
    sys.exit(code)
