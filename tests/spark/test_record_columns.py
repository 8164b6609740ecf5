"""Which columns are written, and what is said of those that cannot be."""

from __future__ import annotations

import pytest

from kclient.spark.errors import SourceError
from kclient.spark.record_columns import RecordColumns

EVERY = {
    "key": "binary",
    "value": "string",
    "topic": "string",
    "partition": "int",
    "headers": "array<struct<key:string,value:binary>>",
    "offset": "bigint",
}


def test_columns_are_taken_by_name_and_others_are_not_written() -> None:
    assert RecordColumns.choose(EVERY, None) == RecordColumns(
        topic=None, topic_column="topic", value="value", key="key", headers="headers", partition="partition"
    )
    assert RecordColumns.choose({"value": "binary"}, "t") == RecordColumns(
        topic="t", topic_column=None, value="value", key=None, headers=None, partition=None
    )


def test_the_option_topic_goes_before_the_column() -> None:
    columns = RecordColumns.choose({**EVERY, "topic": "bigint"}, "t")
    assert (columns.topic, columns.topic_column) == ("t", None)


def test_a_string_may_have_a_collation() -> None:
    assert RecordColumns.choose({"value": "string collate UNICODE_CI"}, "t").value == "value"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": "binary"}, "no column value, .* the columns are key"),
        ({}, "the columns are none"),
        ({"value": "string"}, "no topic: set the option topic, or add a column topic"),
        ({**EVERY, "value": "bigint"}, "column value is bigint and must be string or binary: cast or encode it"),
        ({**EVERY, "key": "struct<a:int>"}, "column key is struct<a:int> and must be string or binary"),
        ({**EVERY, "topic": "binary"}, "column topic is binary and must be string"),
        ({**EVERY, "partition": "bigint"}, "column partition is bigint and must be int"),
        ({**EVERY, "headers": "map<string,binary>"}, "column headers is map.* and must be array<struct<key:string"),
    ],
    ids=["no value", "no column", "no topic", "value", "key", "topic", "partition", "headers"],
)
def test_what_cannot_be_written_is_named(columns: dict[str, str], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        RecordColumns.choose(columns, None)
