"""The choice between the compiled and the pure hot path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient._twins import load

if TYPE_CHECKING:
    from kclient.producer.accumulator import Accumulator, PartitionQueue, SendPath, TopicQueue
    from kclient.producer.future import RecordFuture

__all__ = ["Accumulator", "PartitionQueue", "RecordFuture", "SendPath", "TopicQueue"]

if not TYPE_CHECKING:
    Accumulator, PartitionQueue, RecordFuture, SendPath, TopicQueue = load(
        __all__,
        compiled="kclient.producer._hot",
        pure=("kclient.producer.accumulator", "kclient.producer.future"),
    )
