"""The `kclient` command on a simulated machine: a call of its entry point, with files for its standard streams."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from contextlib import ExitStack
from subprocess import CompletedProcess
from typing import IO
from unittest import mock

from kclient.cli.main import main
from tests.support.command_line import Cli


class SimulatedCli(Cli):
    """Runs `kclient` in this process."""

    def run(self, *arguments: str, stdin: bytes = b"") -> CompletedProcess[bytes]:
        with ExitStack() as stack:
            streams = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3)]
            given, out, err = streams
            given.buffer.write(stdin)
            given.flush()
            os.lseek(given.fileno(), 0, os.SEEK_SET)
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                stack.enter_context(mock.patch.object(sys, name, stream))
            stack.enter_context(mock.patch.object(sys, "argv", ["kclient", *arguments]))
            stack.enter_context(mock.patch.dict(os.environ, self.environment))
            # A process would take its handlers of the log with it.
            stack.enter_context(mock.patch.object(logging.getLogger("kclient"), "handlers", []))
            status = _status()
            return CompletedProcess(arguments, status, _written(out), _written(err))
        raise AssertionError("nothing of the stack swallows an exception")


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
