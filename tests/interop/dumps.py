"""What `refbroker dump-log` and Apache Kafka's DumpLogSegments print of the same files."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from refbroker.__main__ import main
from tests.support.kafka.jars import run_tool
from tests.support.patience import PROCESS

TOOL = "org.apache.kafka.tools.DumpLogSegments"
FINDING = re.compile(
    r"(Mismatches in|Found timestamp mismatch|Found out of order|The following indexed|Non-consecutive)"
)


def kafkas(files: Sequence[Path], *options: str) -> list[str]:
    """The lines of Kafka's tool."""
    joined = ",".join(map(str, files))
    return run_tool(TOOL, "--files", joined, *options, timeout=PROCESS).stdout.splitlines()


def ours(files: Sequence[Path], *options: str) -> tuple[list[str], int]:
    """The lines of refbroker's, and the status it ends with."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        status = main(["dump-log", "--files", ",".join(map(str, files)), *options])
    return output.getvalue().splitlines(), status


def parts(lines: list[str]) -> tuple[list[str], list[list[str]]]:
    """The dump, and the findings at its end: Kafka's tool has the files of those in no order."""
    starts = [number for number, line in enumerate(lines) if FINDING.match(line)]
    ends = [*starts[1:], len(lines)][: len(starts)]
    return lines[: starts[0] if starts else None], sorted(
        lines[start:end] for start, end in zip(starts, ends, strict=True)
    )


def _without_keys(line: str) -> str:
    """Hide the keys of users, which Kafka shows and refbroker does not."""
    return re.sub(r'"(salt|storedKey|serverKey)":"[^"]+"', r'"\1":"[hidden]"', line)


def assert_same(files: Sequence[Path], *options: str, status: int = 0) -> list[str]:
    """See that both print the same, which is returned."""
    assert files
    said, got = ours(files, *options)
    assert parts(said) == parts([_without_keys(line) for line in kafkas(files, *options)])
    assert got == status, said[-5:]
    return said
