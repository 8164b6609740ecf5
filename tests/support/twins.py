"""The compiled twin of the record modules, if it was built."""

from __future__ import annotations

import importlib
from types import ModuleType

from kclient.records import IMPLEMENTATION


def compiled_twin() -> ModuleType | None:
    """Return the compiled twin, or None if it was not built or is disabled."""
    return importlib.import_module("kclient.records._compiled") if IMPLEMENTATION == "compiled" else None
