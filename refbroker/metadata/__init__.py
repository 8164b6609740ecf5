"""The metadata of the cluster: topics, partitions, settings, blocks of producer ids, replayed from
`__cluster_metadata-0`.

`image` is the state and the only code that changes it, by records. `log` appends records, replays them, and takes
snapshots. `publisher` applies changes to the logs of partitions. docs/internals/metadata.md explains how they work
together. Source: KIP-500, KIP-630, KIP-631.
"""

from __future__ import annotations

from refbroker.metadata.image import BrokerRegistration, ClusterImage, PartitionState, TopicState
from refbroker.metadata.log import MetadataLog

__all__ = ["BrokerRegistration", "ClusterImage", "MetadataLog", "PartitionState", "TopicState"]
