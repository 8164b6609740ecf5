"""The ids of parametrized cases, made from their values.

pytest numbers values that are not strings, numbers, enums, classes or functions (`options3`). The hook in
tests/conftest.py makes ids for them here, and refuses a value without a readable id, so that no id is a position.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Set
from types import NoneType

LIMIT = 100
"""In characters, as in pytest. Longer ids hide what differs between two cases: such cases are named by hand."""

_ADDRESS = re.compile(r"\bat 0x[0-9a-f]+\b")


def readable_id(value: object) -> str | None:
    """Return the id of a parameter's value; None if the case has to be named by hand."""
    if getattr(value, "__name__", "") == "<lambda>":
        return None
    text = _text(value).encode("unicode_escape").decode("ascii")
    return None if len(text) > LIMIT or _ADDRESS.search(text) else text


def _text(value: object) -> str:
    match value:
        case enum.Enum():
            return str(value.name)
        case bool() | int() | float() | complex() | NoneType():
            return str(value)
        case str():
            return value
        case bytes():
            return value.decode("latin-1")
        case re.Pattern():
            return _text(value.pattern)
        case BaseException():
            kind, text = type(value).__name__, str(value)
            return f"{kind} {text}" if 0 < len(text) <= 40 else kind
        case Mapping():
            return ",".join(f"{_text(key)}={_nested(item)}" for key, item in value.items()) or "empty"
        case list() | tuple():
            return ",".join(_nested(item) for item in value) or "empty"
        case Set():
            return ",".join(sorted(_nested(item) for item in value)) or "empty"
    name = getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value)


def _nested(value: object) -> str:
    return f"({_text(value)})" if isinstance(value, Mapping | list | tuple | Set) else _text(value)
