"""The compiled twin of the records, where there is one."""

from __future__ import annotations

import importlib
from types import ModuleType

from kclient.records import IMPLEMENTATION


def compiled_twin() -> ModuleType | None:
    """The compiled twin; None where it was not built or is not wanted."""
    return importlib.import_module("kclient.records._compiled") if IMPLEMENTATION == "compiled" else None
