"""The formats of an entry: the text of Kafka's tool, or a JSON object."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from refbroker.dump.entries import Entry, OptionalLong
from refbroker.dump.kafka_json import json_text


def text_line(entry: Entry) -> str:
    """Return the line that Kafka's tool prints."""
    return pairs(entry.fields) if entry.text is None else entry.text


def json_line(path: Path, entry: Entry) -> str:
    """Return a JSON object of the file's path and the entry's fields."""
    return json.dumps({"file": str(path), **_plain(entry.fields)}, ensure_ascii=False, separators=(",", ":"))


def pairs(fields: dict[str, Any]) -> str:
    """Return names and values as text, such as `offset: 5 position: 1024`."""
    return " ".join(f"{name}: {_shown(value)}" for name, value in fields.items())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json_text(value)
    if isinstance(value, list):
        return "[" + ",".join(map(_shown, value)) + "]"
    return str(value)


def _plain(value: Any) -> Any:
    """Return a value in types that JSON has; bytes become text if they are UTF-8, else base64."""
    if isinstance(value, OptionalLong):
        return value.value
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, bytes | memoryview):
        data = bytes(value)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return base64.b64encode(data).decode()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value
