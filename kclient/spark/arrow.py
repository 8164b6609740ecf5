"""Fetched records as an Arrow batch in the schema that was declared to Spark.

The client's decoder fills most columns. The others are converted here by Arrow, without a Python object per record:
timestamps to microseconds, and missing headers to null, as in Spark's connector. Elsewhere: the columns (`schema`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kclient.spark.errors import SourceError
from kclient.spark.schema import arrow_schema
from kclient.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow

    from kclient import Records

_DECODED = {
    "key": "key",
    "value": "value",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "timestamp",
    "timestampType": "timestamp_type",
    "headers": "headers",
}
"""By Spark's name, the client's name of each column. All records of a task have the same topic, which is not
decoded.
"""


def to_batch(records: Records, partition: TopicPartition, columns: Sequence[str], end: int) -> pyarrow.RecordBatch:
    """Return the records before the offset `end` in Spark's columns.

    Parameters:
        records: the records of one partition.
        partition: the partition.
        columns: the names from `schema.COLUMNS`, in order.
        end: where to stop; because of gaps in a log, the records may include later ones.

    Raises:
        SourceError: a value does not fit into Spark's type of the column.
    """
    import pyarrow

    schema = arrow_schema(columns)
    decoded = [_DECODED[name] for name in columns if name in _DECODED]
    cut = records.next_offsets()[partition] > end
    # The offsets also determine the number of rows if there is no other column.
    if (cut or not decoded) and "offset" not in decoded:
        decoded.append("offset")
    batch = records.to_arrow(decoded)
    if cut:
        batch = batch.slice(0, _count_before(batch.column("offset"), end))
    arrays = []
    for field in schema:
        if field.name == "topic":
            arrays.append(pyarrow.repeat(pyarrow.scalar(partition.topic, field.type), batch.num_rows))
            continue
        array = batch.column(_DECODED[field.name])
        if field.name == "timestamp":
            array = _microseconds(pyarrow, array, field.type, partition)
        elif field.name == "headers":
            array = _headers(pyarrow, array, field.type)
        arrays.append(array)
    # Binary columns beyond 2 GiB have 64-bit offsets, which Spark does not support; batches are far smaller.
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _count_before(offsets: Any, end: int) -> int:
    low, high = 0, len(offsets)
    while low < high:
        middle = (low + high) // 2
        if offsets[middle].as_py() < end:
            low = middle + 1
        else:
            high = middle
    return low


def _microseconds(pyarrow: Any, array: Any, to: Any, partition: TopicPartition) -> Any:
    try:
        return array.cast(to)
    except pyarrow.ArrowInvalid:
        raise SourceError(
            f"a timestamp of {partition} is too far from 1970 for Spark; choose columns=... without timestamp"
        ) from None


def _headers(pyarrow: Any, array: Any, to: Any) -> Any:
    compute = pyarrow.compute
    headers = array.flatten()
    values = pyarrow.StructArray.from_arrays([headers.field("key"), headers.field("value")], fields=list(to.value_type))
    lengths = compute.list_value_length(array)
    offsets = pyarrow.concat_arrays([pyarrow.array([0], pyarrow.int32()), compute.cumulative_sum(lengths)])
    return pyarrow.ListArray.from_arrays(offsets, values, type=to, mask=compute.equal(lengths, 0))
