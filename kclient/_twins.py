"""The choice between the compiled and the pure twins of the hot paths, made once for all of kclient.

Every extension module has a pure twin with the same names. The choice is made once, when kclient is first used:

    KCLIENT_PURE=1               the pure twins
    every module was built       the compiled twins
    none was built               the pure twins, as on a machine without a C compiler
    some were built              the pure twins, with a warning, since the twins of two packages never mix

With KCLIENT_REQUIRE_COMPILED=1 modules that were not built are an error. A module that was built and cannot be imported
always is.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

COMPILED = (
    "kclient.consumer.iteration._iterator",
    "kclient.net._io",
    "kclient.producer._hot",
    "kclient.records._builder",
    "kclient.records._columns",
    "kclient.records._cursor",
    "kclient.records._handover",
    "kclient.records._records",
    "kclient.records._rows",
    "kclient.security._tls_stream",
)
"""Every extension module."""

_REPAIR = "install kclient again where a C compiler works, or set KCLIENT_PURE=1 to use the pure twins"


def choose(built: Sequence[str], *, pure: bool, required: bool) -> str:
    """Return which twins to use, "compiled" or "pure".

    Parameters:
        built: the extension modules that are there for this interpreter.
        pure: whether the pure twins are requested; this takes precedence.
        required: whether the compiled twins are requested.

    Raises:
        ImportError: the compiled twins are requested, and not all of them exist.
    """
    if pure:
        return "pure"
    missing = [name for name in COMPILED if name not in built]
    if not missing:
        return "compiled"
    if required or built:
        text = f"kclient has no compiled {', '.join(missing)}"
        if required:
            raise ImportError(f"{text}, and KCLIENT_REQUIRE_COMPILED is set; {_REPAIR}")
        warnings.warn(f"{text}, so the pure twins are used throughout; {_REPAIR}", RuntimeWarning, stacklevel=2)
    return "pure"


def load(names: Sequence[str], *, compiled: str, pure: Sequence[str]) -> tuple[Any, ...]:
    """Return the objects of these names from the twin in use.

    Parameters:
        compiled: the compiled module.
        pure: the modules that its names are in without it.

    Raises:
        ImportError: the compiled module was built and cannot be imported.
    """
    if IMPLEMENTATION == "pure":
        modules = [importlib.import_module(module) for module in pure]
        return tuple(next(vars(module)[name] for module in modules if name in vars(module)) for name in names)
    try:
        module = importlib.import_module(compiled)
    except ImportError as error:
        raise ImportError(f"{compiled} was built and cannot be imported: {error}; {_REPAIR}") from error
    return tuple(getattr(module, name) for name in names)


def _built() -> list[str]:
    root = Path(__file__).parent.parent
    return [
        name
        for name in COMPILED
        if any(root.joinpath(*name.split(".")).with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)
    ]


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


IMPLEMENTATION = choose(_built(), pure=_is_set("KCLIENT_PURE"), required=_is_set("KCLIENT_REQUIRE_COMPILED"))
"""Which twins are in use: "compiled" or "pure"."""
