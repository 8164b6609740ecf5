"""The producer: batches records per partition and delivers each once and in order."""

from __future__ import annotations

from kclient.producer.async_producer import AsyncProducer
from kclient.producer.implementation import RecordFuture
from kclient.producer.partitioners import (
    ConsistentRandomPartitioner,
    Partitioner,
    RandomPartitioner,
    RoundRobinPartitioner,
    partition_for_key,
)
from kclient.producer.producer import Producer
from kclient.producer.record import ProducerInterceptor, ProducerRecord
from kclient.producer.rows_future import RowsFuture

__all__ = [
    "AsyncProducer",
    "ConsistentRandomPartitioner",
    "Partitioner",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "RandomPartitioner",
    "RecordFuture",
    "RoundRobinPartitioner",
    "RowsFuture",
    "partition_for_key",
]
