"""Runs `kclient` as its users do: each command a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.patience import PROCESS


class Cli:
    """Runs `kclient` with the cluster in its environment."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.environment = {**os.environ, "KCLIENT_BOOTSTRAP_SERVERS": bootstrap_servers}

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "kclient", *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment,
            timeout=PROCESS,
            check=False,
        )

    def __call__(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stderr == b"", "a pipe carries results only"
        return done.stdout
