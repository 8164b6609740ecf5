"""Messages in the JSON form that Kafka's own tools print: its JsonConverters' fields, Jackson's text.

A field has Kafka's name in camel case; what the version lacks is absent, and so is a tagged field at its
default. Bytes are base64, ids URL-safe base64 without padding.
"""

from __future__ import annotations

import base64
import math
import re
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from kclient.protocol import Message, Struct
from kclient.protocol.fields import Type, fields_of
from refbroker.log.checkpoints import encode_uuid

_WORD = re.compile(r"_([a-z0-9])|(?<=[0-9])([a-z])")
_ESCAPE = re.compile(r"\\u([0-9a-f]{4})")
# Between these Java writes a double without an exponent.
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def as_json(message: Message, version: int) -> dict[str, Any]:
    """A message as nested dicts and lists of what JSON has.

    Parameters:
        version: the version it was decoded at.
    """
    return _struct(message, version)


def json_text(value: Any) -> str:
    """JSON as Jackson writes it: no spaces, and nothing escaped that need not be."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_string(name)}:{json_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _double(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def camel_case(name: str) -> str:
    """A field's name as Kafka's JSON has it."""
    camel = _WORD.sub(lambda start: (start[1] or start[2]).upper(), name)
    # Kafka declares KRaftVersion, of which it lowers the first letter only.
    return "kR" + camel[2:] if camel.startswith("kraft") else camel


def _struct(value: Struct, version: int) -> dict[str, Any]:
    shown = {}
    for field in fields_of(type(value)):
        if version not in field.versions:
            continue
        item = getattr(value, field.name)
        if field.is_tagged(version) and item == field.default:
            continue
        shown[camel_case(field.name)] = _value(field.type, item, version)
    return shown


def _value(kind: Type, value: Any, version: int) -> Any:
    if value is None:
        return None
    if kind.element is not None:
        return [_value(kind.element, item, version) for item in value]
    if kind.struct is not None:
        return _struct(value, version)
    if kind.name == "uuid":
        return encode_uuid(value)
    if kind.name in ("bytes", "records"):
        return base64.b64encode(value).decode()
    return float(value) if kind.name == "float64" else value


def _string(text: str) -> str:
    # Jackson's hexadecimal digits are capitals; a lone backslash is written as two and is not matched.
    escaped = encode_basestring(text)
    if "\\u" not in escaped:
        return escaped
    return "".join(
        _ESCAPE.sub(lambda found: "\\u" + found[1].upper(), part) if part != "\\\\" else part
        for part in re.split(r"(\\\\)", escaped)
    )


def _double(value: float) -> str:
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *others = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(others) or '0'}E{exponent + len(others)}"
