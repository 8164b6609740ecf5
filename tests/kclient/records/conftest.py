"""Both twins as one fixture, and Kafka's own batches as data."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kclient.records import pure

SAMPLE = Path(__file__).parents[2] / "data" / "golden_record_batches.jsonl"
SHARED = Path(__file__).parents[4] / "shared" / "golden"


def load_golden() -> list[dict[str, Any]]:
    """Batches written by the Java client, with what is in them; the project's sample or all there are."""
    whole = SHARED / "record_batches.jsonl"
    return [json.loads(line) for line in (whole if whole.exists() else SAMPLE).read_text().splitlines()]


def compiled_twin() -> ModuleType | None:
    """The compiled twin, None where it was not built or is not wanted."""
    if os.environ.get("KCLIENT_PURE", "") not in ("", "0"):
        return None
    if importlib.util.find_spec("kclient.records._records") is None:
        return None
    return importlib.import_module("kclient.records._compiled")


@pytest.fixture(params=["pure", "compiled"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    if request.param == "pure":
        return pure
    module = compiled_twin()
    if module is None:
        pytest.skip("the compiled twin is not built, or KCLIENT_PURE is set")
    return module
