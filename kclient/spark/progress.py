"""How far a stream is behind, out of what Spark tells of a query's progress.

Spark has no name for the lag of a source that is written in Python, but reports how far the source has read and how far
it could have. For Kafka's own tools there is the option `commitOffsetsToGroup`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kclient.spark.offsets import Offsets, from_json

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress


def lag(progress: StreamingQueryProgress) -> Offsets:
    """By partition, the offsets between the end of the last micro-batch and the end of the partition then.

    A partition that the query has just found is not in it before its first micro-batch.

    Parameters:
        progress: `query.lastProgress`, or what a StreamingQueryListener is given; of a query whose sources are all of
            this format. Where two of them read the same partition, the larger lag counts.
    """
    found: Offsets = {}
    for source in progress["sources"]:
        read, there = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        for partition in there.keys() & read.keys():
            behind = max(0, there[partition] - read[partition])
            found[partition] = max(behind, found.get(partition, 0))
    return found


def _offsets(written: str) -> Offsets:
    """PySpark has the text "None" where there is nothing to tell yet."""
    return from_json(json.loads(written)) if written.startswith("{") else {}
