"""The lines that `kclient produce` reads, the JSON among them, and what is wrong with some."""

from __future__ import annotations

import json

import pytest

from kclient.cli import json_records
from kclient.cli.lines import Line, LineError, json_lines, plain_lines
from kclient.types import ConsumerRecord

RECORD = ConsumerRecord(
    topic="t",
    partition=3,
    offset=17,
    timestamp=1_600_000_000_000,
    key=b"k",
    value=b"\xff\x00",
    headers=(("text", "ä".encode()), ("bytes", b"\xfe"), ("none", None)),
)


def test_what_consume_writes_produce_reads() -> None:
    (line,) = json_lines([json_records.encode(RECORD)])
    assert line == Line(1, RECORD.value, RECORD.key, RECORD.headers, RECORD.partition, RECORD.timestamp)


def test_a_record_is_written_with_the_documented_fields() -> None:
    assert json.loads(json_records.encode(RECORD)) == {
        "topic": "t",
        "partition": 3,
        "offset": 17,
        "timestamp": 1_600_000_000_000,
        "key": "k",
        "value_base64": "/wA=",
        "headers": [
            {"name": "text", "value": "ä"},
            {"name": "bytes", "value_base64": "/g=="},
            {"name": "none", "value": None},
        ],
    }


def test_all_fields_may_be_missing_and_empty_lines_are_skipped() -> None:
    assert list(json_lines([b"{}\n", b"\n", b' {"value": ""}\n'])) == [Line(1, None), Line(3, b"")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"hello", "JSON is malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"valeu": "x"}', "Object contains unknown field `valeu`"),
        (b'{"value": {"a": 1}}', r"Expected `str \| null`, got `object` - at `\$\.value`"),
        (b'{"partition": "3"}', r"Expected `int \| null`, got `str`"),
        (b'{"value": "x", "value_base64": "eA=="}', "value and value_base64 exclude each other"),
        (b'{"key_base64": "x"}', "key_base64 is not base64"),
        (b'{"headers": [{"value": "x"}]}', "Object missing required field `name`"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(line: bytes, says: str) -> None:
    lines = json_lines([b'{"value": "1"}\n', b"\n", line])
    assert next(lines) == Line(1, b"1")
    with pytest.raises(LineError, match=f"^line 3: {says}"):
        next(lines)


def test_plain_lines_lose_their_ends_and_nothing_else() -> None:
    assert list(plain_lines([b" a \r\n", b"\n", b"\xff"], None)) == [Line(1, b" a "), Line(2, b""), Line(3, b"\xff")]


def test_a_separator_divides_key_and_value_at_its_first_place() -> None:
    assert list(plain_lines([b"k::v::w\n"], b"::")) == [Line(1, b"v::w", b"k")]
    with pytest.raises(LineError, match=r"^line 2: there is no key separator '\\\\xff'"):
        list(plain_lines([b"k\xffv\n", b"kv\n"], b"\xff"))
