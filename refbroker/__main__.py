"""The command line: `refbroker COMMAND`; `commands` has a module for each.

Errors in the user's input are printed to standard error, with exit status 2.
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
    """Run the command line; return the exit status."""
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
        # The reader of the output has closed the pipe; Python must not fail on it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KafkaError as error:
        # Kafka's error name and code help a client decide whether to retry, not a reader of the command line.
        print(f"refbroker: {error.message}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"refbroker: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
