"""The mapping of columns to the parts of a record, as in Spark's own Kafka connector.

The columns `topic` (string), `key` and `value` (string or binary), `headers` and `partition` (int) are written, others
are ignored, so that rows that were read can be written unchanged. The option `topic` overrides the column. Elsewhere:
sending and delivery (`sending`), and PySpark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from kclient.errors import RecordTooLargeError
from kclient.spark.errors import SourceError, as_in_spark

if TYPE_CHECKING:
    import pyarrow

    from kclient import Producer, RowsFuture

TYPES = {
    "topic": "string",
    "key": "string or binary",
    "value": "string or binary",
    "headers": "array<struct<key:string,value:binary>>",
    "partition": "int",
}
"""The columns that are written, with their permitted Spark types."""


class RecordColumns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns to write; the fields are the parameters of `Producer.send_arrow`.

    Attributes:
        topic: the topic of all rows; None if there is a column of topics.
    """

    topic: str | None
    topic_column: str | None
    value: str
    key: str | None
    headers: str | None
    partition: str | None

    @classmethod
    def choose(cls, columns: Mapping[str, str], topic: str | None) -> RecordColumns:
        """Return the columns of the rows to write.

        Parameters:
            columns: the Spark types of the columns, by name.
            topic: the option `topic`.

        Raises:
            SourceError: there is no value or no topic, or a column has an unsupported type.
        """
        have = ", ".join(columns) or "none"
        if "value" not in columns:
            raise SourceError(f"the rows have no column value, which is required; the columns are {have}")
        if topic is None and "topic" not in columns:
            raise SourceError(f"no topic: set the option topic, or add a column topic; the columns are {have}")
        taken = {name: name for name in TYPES if name in columns}
        if topic is not None:
            taken.pop("topic", None)
        for name in taken:
            # A string may have a collation, which does not matter for Kafka.
            kind = re.sub(r"^string collate \w+$", "string", columns[name])
            if kind not in TYPES[name].split(" or "):
                raise SourceError(f"column {name} is {columns[name]} and must be {TYPES[name]}: cast or encode it")
        return cls(
            topic=topic,
            topic_column=taken.get("topic"),
            value="value",
            key=taken.get("key"),
            headers=taken.get("headers"),
            partition=taken.get("partition"),
        )

    def send(self, producer: Producer, rows: pyarrow.RecordBatch) -> RowsFuture:
        """Send rows, as `Producer.send_arrow` does.

        Raises:
            SourceError: a row cannot be a record.
            KafkaError: raised by `send_arrow`.
        """
        if self.topic_column is not None and rows.column(self.topic_column).null_count:
            raise SourceError("the topic of a row is null: fill the column topic, or set the option topic for all rows")
        columns = msgspec.structs.asdict(self)
        try:
            return producer.send_arrow(columns.pop("topic"), rows, **columns)
        except (TypeError, ValueError) as error:
            raise SourceError(f"a row cannot be a record: {error}") from None
        except RecordTooLargeError as error:
            # The limit of the client; a row that is too large for the brokers fails at delivery.
            raise SourceError(f"a row cannot be a record: {as_in_spark(error.message)}") from None
