"""refbroker as its users start it: a process with its data in a folder."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.patience import PROCESS

READY = re.compile(r"refbroker ready on (\S+:\d+)")


class BrokerProcess:
    """``refbroker run`` as a context manager.

    Args:
        data_directory: its data directory, unless the settings contain `log.dirs`.
        port: 0 for a free one.
        settings: broker settings, in Kafka's own names.
        options: further command-line options.
        imports_from: the folder of another installation to run; by default this one.

    Attributes:
        lines: what it had printed when it was ready.
    """

    def __init__(
        self,
        data_directory: Path,
        *,
        port: int = 0,
        settings: dict[str, str] | None = None,
        options: Sequence[str] = (),
        imports_from: Path | None = None,
    ) -> None:
        self._imports_from = imports_from
        self.data_directory = data_directory
        self.bootstrap_servers = ""
        self.output_file = data_directory.with_suffix(".out")
        self.lines: list[str] = []
        named = [part for name, value in (settings or {}).items() for part in ("--set", f"{name}={value}")]
        self._command = [
            *(sys.executable, "-m", "refbroker", "run"),
            *("--port", str(port), *named, *options),
            *(() if "log.dirs" in (settings or {}) else ("--data-dir", str(data_directory))),
        ]

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if self._imports_from is not None:
            environment["PYTHONPATH"] = str(self._imports_from)
        with open(self.output_file, "ab") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                # `-m` looks in the working directory first.
                cwd=self._imports_from,
            )
        try:
            self.bootstrap_servers = self._wait_until_ready()
        except BaseException:
            self.stop(kill=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait(self) -> int:
        """Wait until the process ends by itself, and return its exit status."""
        return self._process.wait(PROCESS)

    def stop(self, *, kill: bool = False) -> int:
        """End the process with SIGTERM, or with SIGKILL, and return its exit status."""
        self._process.kill() if kill else self._process.terminate()
        try:
            return self._process.wait(PROCESS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()

    def _wait_until_ready(self) -> str:
        assert self._process.stdout is not None
        deadline = time.monotonic() + PROCESS
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while time.monotonic() < deadline and selector.select(deadline - time.monotonic()):
                piece = os.read(self._process.stdout.fileno(), 4096)
                said += piece
                if ready := READY.search(said.decode(errors="replace")):
                    self.lines = said.decode().splitlines()
                    return ready[1]
                if not piece:
                    break
        errors = self.output_file.read_text(errors="replace")
        raise AssertionError(f"refbroker did not start; it said:\n{said.decode(errors='replace')}{errors[-4000:]}")
