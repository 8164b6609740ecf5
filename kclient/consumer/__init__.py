"""Consumers: what is read and from where, fetching ahead, and the two faces.

Leaves out groups, whose members, assignors and committed offsets are not available in this version.
"""

from __future__ import annotations

from kclient.consumer.async_consumer import AsyncConsumer
from kclient.consumer.consumer import Consumer
from kclient.consumer.records import Records

__all__ = ["AsyncConsumer", "Consumer", "Records"]
