"""The cluster's state: topics, partitions, settings, producer id blocks, all replayed from `__cluster_metadata-0`.

`image` is the state and the only code that changes it, record by record; `log` appends records, replays
them, and takes snapshots of the state; `publisher` makes the partitions' logs follow it. How it all hangs
together is told in docs/internals/metadata.md. Source: KIP-500, KIP-630, KIP-631.
"""

from __future__ import annotations

from refbroker.metadata.image import BrokerRegistration, ClusterImage, PartitionState, TopicState
from refbroker.metadata.log import MetadataLog

__all__ = ["BrokerRegistration", "ClusterImage", "MetadataLog", "PartitionState", "TopicState"]
