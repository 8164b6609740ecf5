"""The lag of a stream, from the progress that Spark reports.

Spark has no lag for Python sources, but reports the offsets that were read and the latest ones. For Kafka's own tools,
use the option `commitOffsetsToGroup`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kclient.spark.offsets import Offsets, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


def lag(progress: StreamingQueryProgress) -> Offsets:
    """Return the offsets between the end of the last micro-batch and the end of the partition at that time, by
    partition.

    A new partition is missing before its first micro-batch.

    Parameters:
        progress: `query.lastProgress`, or that of a StreamingQueryListener, for a query with only sources of this
            format. If two of them read the same partition, the larger lag counts.
    """
    found: Offsets = {}
    for source in progress["sources"]:
        read, there = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        for partition in there.keys() & read.keys():
            behind = max(0, there[partition] - read[partition])
            found[partition] = max(behind, found.get(partition, 0))
    return found


def _offsets(written: str) -> Offsets:
    """PySpark has the text "None" if nothing was reported yet."""
    return from_json(json.loads(written)) if written.startswith("{") else {}
