"""Results of Apache Kafka 4.3.1, from `tests/data/golden` (listed in `tests/data/README.md`)."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "golden"


@functools.cache
def golden_rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of the file `NAME.jsonl`; callers share them and leave them unchanged."""
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


def golden_assignor_rows(kind: str) -> list[dict[str, Any]]:
    """Return the rows of one kind that the Java client's assignors and hashes computed."""
    return [row for row in golden_rows("client_assignors") if row["kind"] == kind]
