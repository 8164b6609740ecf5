"""The `kclient` command on a simulated machine: a call of its entry point, with files for its standard streams."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from subprocess import CompletedProcess
from typing import IO
from unittest import mock

from kclient.cli.main import main
from tests.support.command_line import Cli


class SimulatedCli(Cli):
    """Runs `kclient` in this process."""

    def run(self, *arguments: str, stdin: bytes = b"") -> CompletedProcess[bytes]:
        with (
            tempfile.TemporaryFile("w+") as given,
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            mock.patch.multiple(sys, stdin=given, stdout=out, stderr=err, argv=["kclient", *arguments]),
            mock.patch.dict(os.environ, self.environment),
            # The handlers that the command adds would stay, as its process does not end.
            mock.patch.object(logging.getLogger("kclient"), "handlers", []),
        ):
            given.buffer.write(stdin)
            given.flush()
            os.lseek(given.fileno(), 0, os.SEEK_SET)
            return CompletedProcess(arguments, _status(), _written(out), _written(err))


def _status() -> int:
    """Run the entry point, and return the exit status of its process."""
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)  # noqa: T201 - as the interpreter does
            return 1
        return ended.code or 0
    return 0


def _written(stream: IO[str]) -> bytes:
    stream.flush()
    os.lseek(stream.fileno(), 0, os.SEEK_SET)
    with open(stream.fileno(), "rb", closefd=False) as file:
        return file.read()
