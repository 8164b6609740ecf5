"""The JSON that dump-log prints is the one Kafka's converters make."""

from __future__ import annotations

import json

import pytest

from kclient.protocol import lookup
from refbroker.dump.kafka_json import as_json, json_text
from tests.support.golden import golden_message
from tests.support.golden_data import golden_rows


def test_every_message_has_the_java_clients_json_form() -> None:
    for line in golden_rows("messages"):
        message, version = golden_message(line), line["version"]
        got = as_json(lookup(line["message"]).decode(message.encode(version), version), version)
        assert got == line["value"], line["message"]
        assert json.loads(json_text(got)) == line["value"]


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
