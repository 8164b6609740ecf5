"""The command line: `refbroker COMMAND`; the commands are in `commands`.

Errors of the user's go to standard error, with exit status 2.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from refbroker.commands import dump_log, run, storage

COMMANDS = (run, dump_log, storage)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="refbroker", description="A reference broker for Kafka's protocol.")
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.version:
        from kclient import __version__

        print(f"refbroker {__version__}")
        return 0
    if options.command is None:
        parser.print_help()
        return 2
    from kclient.errors import KafkaError

    try:
        status: int = options.do(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python must not stumble over it again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KafkaError as error:
        # Kafka's name and number are for clients, which decide by them whether to try again.
        print(f"refbroker: {error.message}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"refbroker: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
