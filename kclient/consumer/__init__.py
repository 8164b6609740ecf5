"""The consumer: subscription, fetching, positions, committed offsets, and its blocking and async classes.

The members of groups are in `group`.
"""

from __future__ import annotations

from kclient.consumer.async_consumer import AsyncConsumer
from kclient.consumer.consumer import Consumer
from kclient.consumer.group.listener import RebalanceListener
from kclient.consumer.health.report import ConsumerHealth, PartitionHealth, StallReason
from kclient.consumer.interceptors import ConsumerInterceptor
from kclient.consumer.records import Records

__all__ = [
    "AsyncConsumer",
    "Consumer",
    "ConsumerHealth",
    "ConsumerInterceptor",
    "PartitionHealth",
    "RebalanceListener",
    "Records",
    "StallReason",
]
