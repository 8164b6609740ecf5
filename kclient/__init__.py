"""A Kafka client: producer, consumer and admin, each with a blocking and an async face.

This module holds the public names and nothing else; each is imported on first use, so that
a program that only produces does not load the consumer.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kclient._version import __version__ as __version__

if TYPE_CHECKING:
    from kclient import admin as admin
    from kclient import assignors as assignors
    from kclient import errors as errors
    from kclient import metrics as metrics
    from kclient import serialization as serialization
    from kclient import transform as transform
    from kclient.admin import Admin, AsyncAdmin, NewPartitions, NewTopic
    from kclient.consumer import (
        AsyncConsumer,
        Consumer,
        ConsumerHealth,
        PartitionHealth,
        RebalanceListener,
        Records,
        StallReason,
    )
    from kclient.errors import KafkaError
    from kclient.producer import AsyncProducer, Producer, ProducerRecord, RecordFuture, RowsFuture
    from kclient.security.oauth.tokens import OAuthToken
    from kclient.types import (
        ClientHealth,
        Connectivity,
        ConnectivityState,
        ConsumerGroupMetadata,
        ConsumerRecord,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        PreparedTransaction,
        RecordMetadata,
        SubscriptionPattern,
        TopicPartition,
    )

_HOMES = {
    "Admin": "admin",
    "AsyncAdmin": "admin",
    "AsyncConsumer": "consumer",
    "AsyncProducer": "producer",
    "ClientHealth": "types",
    "Connectivity": "types",
    "ConnectivityState": "types",
    "Consumer": "consumer",
    "ConsumerGroupMetadata": "types",
    "ConsumerHealth": "consumer",
    "ConsumerRecord": "types",
    "NewPartitions": "admin",
    "NewTopic": "admin",
    "KafkaError": "errors",
    "Node": "types",
    "OAuthToken": "security.oauth.tokens",
    "OffsetAndMetadata": "types",
    "OffsetAndTimestamp": "types",
    "PartitionHealth": "consumer",
    "PartitionInfo": "types",
    "PreparedTransaction": "types",
    "Producer": "producer",
    "ProducerRecord": "producer",
    "RebalanceListener": "consumer",
    "RecordFuture": "producer",
    "RecordMetadata": "types",
    "Records": "consumer",
    "RowsFuture": "producer",
    "SubscriptionPattern": "types",
    "TopicPartition": "types",
    "StallReason": "consumer",
}

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "ClientHealth",
    "Connectivity",
    "ConnectivityState",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerRecord",
    "KafkaError",
    "NewPartitions",
    "NewTopic",
    "Node",
    "OAuthToken",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionHealth",
    "PartitionInfo",
    "PreparedTransaction",
    "Producer",
    "ProducerRecord",
    "RebalanceListener",
    "RecordFuture",
    "RecordMetadata",
    "Records",
    "RowsFuture",
    "StallReason",
    "SubscriptionPattern",
    "TopicPartition",
]


_MODULES = frozenset({"admin", "assignors", "errors", "metrics", "serialization", "transform"})
"""The modules that users name: `kclient.errors` works without an import of its own."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kclient.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'kclient' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"kclient.{home}"), name)
    except AttributeError as error:
        # As it is, `from kclient import ...` would take it for a name that does not exist.
        raise ImportError(
            f"kclient.{home} could not be loaded: {error} (are its compiled modules older than the rest?)"
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, "__version__"})
