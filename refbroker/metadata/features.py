"""The features of the cluster, and the levels of them that this broker supports.

A feature is finalized at a level when all nodes use it. Only features with an effect in this broker are supported and
returned to clients. A data directory of Apache Kafka may have other finalized features (`share.version`, …): they stay
in the metadata for the time when Kafka uses the directory again, but clients do not get them. Elsewhere: changes of
finalized levels (`refbroker.controller.features`). Source: KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from typing import NamedTuple

from refbroker.metadata.image import KRAFT_VERSION, ClusterImage
from refbroker.metadata.versions import LATEST, METADATA_VERSION, OLDEST

ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"
GROUP_VERSION = "group.version"
TRANSACTION_VERSION = "transaction.version"

SUPPORTED_FEATURES: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (OLDEST, LATEST),
    GROUP_VERSION: (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""The features of this broker, with the supported levels."""

REGISTERED_FEATURES: dict[str, tuple[int, int]] = {
    **SUPPORTED_FEATURES,
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    KRAFT_VERSION: (0, 1),
}
"""The features with which this broker registers at other controllers. Those that matter to controllers only are among
them, because a controller refuses a broker that does not have each finalized feature.
"""


class FeatureLevel(NamedTuple):
    """A level of a feature above 0.

    Attributes:
        since: the lowest metadata.version at which new clusters have it.
        needs: the lowest metadata.version that it requires.
    """

    since: int
    needs: int


KAFKA_FEATURES: dict[str, tuple[FeatureLevel, ...]] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: (FeatureLevel(26, 23),),
    "group.version": (FeatureLevel(22, 7),),
    KRAFT_VERSION: (FeatureLevel(21, 21),),
    "share.version": (FeatureLevel(28, 7),),
    "streams.version": (FeatureLevel(29, 7),),
    TRANSACTION_VERSION: (FeatureLevel(24, 7), FeatureLevel(24, 7)),
}
"""The features of Kafka 4.3 beside `metadata.version`, level 1 first.

New clusters that Kafka formats have them. If the metadata has a level, it can be removed here.
"""


def finalized_features(image: ClusterImage) -> dict[str, int]:
    """Return the finalized levels that clients get."""
    return {name: level for name, level in image.features.items() if name in SUPPORTED_FEATURES}
