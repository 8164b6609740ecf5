"""Changes of the finalized levels of features: their checks and records.

Checks and messages are those of Kafka's controller. Elsewhere: the features (`refbroker.metadata.features`). Source:
KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kclient.errors import InvalidUpdateVersionError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import FeatureLevelRecord
from refbroker.metadata.features import KAFKA_FEATURES, SUPPORTED_FEATURES
from refbroker.metadata.image import KRAFT_VERSION, ClusterImage
from refbroker.metadata.versions import METADATA_VERSION, metadata_changes_between


class UpgradeType(enum.IntEnum):
    """The direction of a change, as in UpdateFeatures."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3

    @classmethod
    def _missing_(cls, value: object) -> UpgradeType:
        return cls.UNKNOWN


class FeatureUpdate(NamedTuple):
    """A requested level."""

    name: str
    level: int
    upgrade_type: UpgradeType


def plan_updates(image: ClusterImage, node_id: int, updates: Sequence[FeatureUpdate]) -> list[Message]:
    """Return the records of updates, of all or none.

    Parameters:
        image: the state of the cluster.
        node_id: the id of this controller.

    Raises:
        InvalidUpdateVersionError: one of them cannot be carried out.
    """
    return [record for update in updates for record in _plan_update(image, node_id, update)]


def _plan_update(image: ClusterImage, node_id: int, update: FeatureUpdate) -> Iterator[Message]:
    name, level, upgrade_type = update
    if upgrade_type is UpgradeType.UNKNOWN:
        raise _invalid(update, "The controller does not support the given upgrade type.")
    current = image.metadata_version if name == METADATA_VERSION else image.features.get(name, 0)
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    reason = _why_not_supported(image, node_id, name, level)
    if reason is not None:
        raise _invalid(update, reason)
    if level < current and upgrade_type is UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    if level > current and upgrade_type is not UpgradeType.UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        _check_metadata_version(current, level, unsafe=upgrade_type is UpgradeType.UNSAFE_DOWNGRADE)
    elif name not in KAFKA_FEATURES or name == KRAFT_VERSION:
        raise _invalid(update, f"Feature {name} not found.")
    yield FeatureLevelRecord(name=name, feature_level=level)


def _why_not_supported(image: ClusterImage, node_id: int, name: str, level: int) -> str | None:
    """Return why a node does not support a level, None if it does; a feature that a node lacks has level 0 there."""
    nodes = [(f"Local controller {node_id}", SUPPORTED_FEATURES.get(name, (0, 0)))]
    for broker in image.brokers.values():
        ranges = {
            feature.name: (feature.min_supported_version, feature.max_supported_version)
            for feature in broker.record.features
        }
        nodes.append((f"Broker {broker.broker_id}", ranges.get(name, (0, 0))))
    for node, (low, high) in nodes:
        if not low <= level <= high:
            if high == 0:
                return f"{node} does not support this feature."
            return f"{node} only supports versions {low if low == high else f'{low}-{high}'}"
    return None


def _check_metadata_version(current: int, level: int, *, unsafe: bool) -> None:
    if level < current and metadata_changes_between(current, level):
        reason = (
            "Unsafe metadata downgrade is not supported in this version."
            if unsafe
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise InvalidUpdateVersionError(f"Unsupported metadata.version downgrade from {current} to {level}. {reason}")


def _invalid(update: FeatureUpdate, reason: str) -> InvalidUpdateVersionError:
    return InvalidUpdateVersionError(f"Invalid update version {update.level} for feature {update.name}. {reason}")
