"""The JSON that dump-log prints is the one Kafka's converters make."""

from __future__ import annotations

import json

import pytest

from kclient.protocol import lookup
from refbroker.dump.kafka_json import as_json, json_text
from tests.support.golden import SHARED, golden_message, sample

ALL = SHARED / "golden" / "messages.jsonl"


def assert_same(lines: list[dict[str, object]]) -> None:
    for line in lines:
        message, version = golden_message(line), line["version"]
        assert isinstance(version, int)
        got = as_json(lookup(str(line["message"])).decode(message.encode(version), version), version)
        assert got == line["value"], line["message"]
        assert json.loads(json_text(got)) == line["value"]


def test_messages_have_the_java_clients_json_form() -> None:
    assert_same(sample())


@pytest.mark.skipif(not ALL.exists(), reason="the whole collection does not lie beside this checkout")
def test_every_golden_message_has_the_java_clients_json_form() -> None:
    assert_same([json.loads(line) for line in ALL.read_text().splitlines()])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None, True, False]}, '{"a":[1,null,true,false]}'),
        ("gr\u00fc\u00dfe/\u65e5", '"gr\u00fc\u00dfe/\u65e5"'),
        ('"\\\n\t\x1f\x7f', '"\\"\\\\\\n\\t\\u001F\x7f"'),
        ("\\u001f", '"\\\\u001f"'),
        (1024.0, "1024.0"),
        (0.001, "0.001"),
        (1e7, "1.0E7"),
        (-1.25e-4, "-1.25E-4"),
        (123456789.125, "1.23456789125E8"),
        (0.0, "0.0"),
        (float("inf"), '"Infinity"'),
    ],
)
def test_values_are_written_as_jackson_writes_them(value: object, text: str) -> None:
    assert json_text(value) == text
