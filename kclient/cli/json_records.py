"""The JSON of records: what `kclient consume --json` writes, and `kclient produce --json` reads.

docs/cli.md describes the fields.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from kclient.types import ConsumerRecord, Headers


class JsonHeader(msgspec.Struct, forbid_unknown_fields=True):
    """One header of a JsonRecord."""

    name: str
    value: str | None = None
    value_base64: str | None = None


class JsonRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A record: `key` and `value` are text; `key_base64` and `value_base64` are for bytes that are not UTF-8."""

    value: str | None = None
    key: str | None = None
    value_base64: str | None = None
    key_base64: str | None = None
    headers: list[JsonHeader] = []
    partition: int | None = None
    timestamp: int | None = None
    topic: str | None = None
    offset: int | None = None

    def key_bytes(self) -> bytes | None:
        """Return the key."""
        return _bytes("key", self.key, self.key_base64)

    def value_bytes(self) -> bytes | None:
        """Return the value."""
        return _bytes("value", self.value, self.value_base64)

    def header_pairs(self) -> Headers:
        """Return the headers."""
        return tuple((each.name, _bytes("value", each.value, each.value_base64)) for each in self.headers)


decode = msgspec.json.Decoder(JsonRecord).decode
"""Return the JsonRecord of a line; raise ValueError if it is not one."""


def encode(record: ConsumerRecord) -> bytes:
    """Return a record as one line of JSON."""
    line: dict[str, Any] = {name: getattr(record, name) for name in ("topic", "partition", "offset", "timestamp")}
    line |= _text_or_base64("key", record.key) | _text_or_base64("value", record.value)
    if record.headers:
        line["headers"] = [{"name": name} | _text_or_base64("value", value) for name, value in record.headers]
    return msgspec.json.encode(line) + b"\n"


def _bytes(name: str, text: str | None, encoded: str | None) -> bytes | None:
    if encoded is None:
        return None if text is None else text.encode()
    if text is not None:
        raise ValueError(f"{name} and {name}_base64 exclude each other")
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise ValueError(f"{name}_base64 is not base64: {error}") from None


def _text_or_base64(name: str, data: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if data is None else data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data or b"").decode()}
