"""Consumers: what is read and from where, fetching ahead, and the two faces.

Groups have a room of their own, `group`.
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
