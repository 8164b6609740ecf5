"""The metadata of the cluster: topics, partitions, settings, blocks of producer ids, replayed from
`__cluster_metadata-0`.

`image` is the state and the only code that changes it, by records. `replica` is the log, from which the image is
replayed, and takes snapshots. `publisher` applies changes to the logs of partitions. docs/internals/metadata.md
explains how they work together. Elsewhere: who decides on changes (`refbroker.controller`).

Source: KIP-500, KIP-630, KIP-631.
"""

from __future__ import annotations

from refbroker.metadata.image import BrokerRegistration, ClusterImage, PartitionState, TopicState
from refbroker.metadata.replica import MetadataReplica

__all__ = ["BrokerRegistration", "ClusterImage", "MetadataReplica", "PartitionState", "TopicState"]
