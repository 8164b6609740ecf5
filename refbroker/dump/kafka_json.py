"""Messages as the JSON that Kafka's tools print: the fields of its JsonConverters, in the format of Jackson.

Field names are Kafka's, in camel case. Fields that the version does not have, and tagged fields at their default, are
omitted. Bytes are base64; ids are URL-safe base64 without padding.
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
# Java writes a double in this range without an exponent.
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7


def as_json(message: Message, version: int) -> dict[str, Any]:
    """Return a message as nested dicts and lists of JSON values.

    Parameters:
        version: the version that the message was decoded with.
    """
    return _struct(message, version)


def json_text(value: Any) -> str:
    """Return JSON as Jackson writes it: without spaces, escaping only what JSON requires."""
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
    """Return the name of a field in Kafka's JSON."""
    camel = _WORD.sub(lambda start: (start[1] or start[2]).upper(), name)
    # Kafka declares KRaftVersion and lowers only the first letter.
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
    # Jackson writes hexadecimal digits in upper case. An escaped backslash must not be taken for the start of \uXXXX.
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
