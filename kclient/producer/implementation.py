"""Which twin of the hot path runs: the compiled one, if it is there and `kclient.records` uses its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient.records import IMPLEMENTATION

if TYPE_CHECKING:
    from kclient.producer.accumulator import Accumulator, PartitionQueue, SendPath, TopicQueue
    from kclient.producer.future import RecordFuture
else:
    try:
        if IMPLEMENTATION != "compiled":
            raise ImportError("the pure twins are in use")
        from kclient.producer._hot import Accumulator, PartitionQueue, RecordFuture, SendPath, TopicQueue
    except ImportError:
        from kclient.producer.accumulator import Accumulator, PartitionQueue, SendPath, TopicQueue
        from kclient.producer.future import RecordFuture

__all__ = ["Accumulator", "PartitionQueue", "RecordFuture", "SendPath", "TopicQueue"]
