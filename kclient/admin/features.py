"""The features of a cluster: the levels that a node supports, and the finalized ones, which can be changed (KIP-584,
KIP-778, KIP-1022).

Elsewhere: the levels that belong to a release, which only a broker of that release knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import msgspec

from kclient._version import __version__
from kclient.admin.arguments import instance, mapping, number, optional, text
from kclient.admin.core import AdminCore, Outcomes, settled
from kclient.errors import BrokerNotAvailableError, ConfigError, KafkaError, error_from_code, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.handshake import SOFTWARE_NAME
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

_FEATURES_FROM = 3
"""The first version of ApiVersions with features."""
_TYPES_FROM = 1
"""The first version of UpdateFeatures with types of upgrades and validation."""


class UpgradeType(IntEnum):
    """The direction in which a feature may change, by Kafka's number."""

    UPGRADE = 1
    """To a higher level."""
    SAFE_DOWNGRADE = 2
    """To a lower level, if no metadata are lost."""
    UNSAFE_DOWNGRADE = 3
    """To a lower level, even if metadata are lost."""


class FeatureUpdate(msgspec.Struct, frozen=True):
    """A new level of a feature.

    Parameters:
        max_version_level: the level; 0 disables the feature, which is a downgrade.
        upgrade_type: the direction; the controller refuses a level in another one.

    Raises:
        ConfigError: the level is negative, or 0 as an upgrade.
    """

    max_version_level: int
    upgrade_type: UpgradeType = UpgradeType.UPGRADE

    def __post_init__(self) -> None:
        number(self.max_version_level, "FeatureUpdate(max_version_level=)")
        instance(self.upgrade_type, UpgradeType, "FeatureUpdate(upgrade_type=)")
        if self.max_version_level < 0:
            raise ConfigError(f"the level of a feature cannot be negative, as is {self.max_version_level}")
        if self.max_version_level == 0 and self.upgrade_type is UpgradeType.UPGRADE:
            raise ConfigError("level 0 disables a feature: use SAFE_DOWNGRADE or UNSAFE_DOWNGRADE")


class SupportedVersionRange(NamedTuple):
    """The levels of a feature that a node supports."""

    min_version: int
    max_version: int


class FinalizedVersionRange(NamedTuple):
    """The levels of a feature that are finalized: the cluster uses the maximum."""

    min_version_level: int
    max_version_level: int


class FeatureMetadata(msgspec.Struct, frozen=True):
    """The features of a cluster, as one node knows them.

    Attributes:
        finalized_features: the finalized levels by feature; a feature that is disabled is absent.
        finalized_features_epoch: grows with each change of the metadata; None while the node knows no features.
        supported_features: the levels that the node supports, by feature.
    """

    finalized_features: Mapping[str, FinalizedVersionRange]
    finalized_features_epoch: int | None
    supported_features: Mapping[str, SupportedVersionRange]


def describe_features(core: AdminCore, node_id: int | None, deadline: Deadline) -> Operation[FeatureMetadata]:
    """Send ApiVersions again: the response at the start of the connection may be older than a change of features."""
    node = ANY_NODE
    if optional(node_id, int, f"{deadline.name}(node_id=)") is not None:
        live = yield from core.live_brokers(deadline)
        if node_id not in live:
            there = ", ".join(map(str, sorted(live)))
            raise BrokerNotAvailableError(f"the cluster has no broker {node_id} that is alive; there is {there}")
        node = node_id
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)

    def attempt() -> Operation[ApiVersionsResponse]:
        answer: ApiVersionsResponse = yield from core.request(
            node, ApiVersionsRequest, lambda version: request, deadline, _FEATURES_FROM
        )
        raise_for_code(answer.error_code)
        return answer

    answer = yield from core.retry(attempt, deadline)
    return FeatureMetadata(
        {
            each.name: FinalizedVersionRange(each.min_version_level, each.max_version_level)
            for each in sorted(answer.finalized_features, key=lambda each: each.name)
        },
        answer.finalized_features_epoch if answer.finalized_features_epoch >= 0 else None,
        {
            each.name: SupportedVersionRange(each.min_version, each.max_version)
            for each in sorted(answer.supported_features, key=lambda each: each.name)
        },
    )


def update_features(
    core: AdminCore, updates: Mapping[str, FeatureUpdate], validate_only: bool, deadline: Deadline
) -> Operation[dict[str, None]]:
    wanted = mapping(updates, text, lambda each, what: instance(each, FeatureUpdate, what), deadline.name)
    if not wanted or not all(wanted):
        raise ConfigError(f"{deadline.name} takes at least one feature, and each has a name")
    kind = UpdateFeaturesRequest
    lossy = any(each.upgrade_type is UpgradeType.UNSAFE_DOWNGRADE for each in wanted.values())

    def update(name: str, version: int) -> UpdateFeaturesRequest.FeatureUpdateKey:
        change = wanted[name]
        if version < _TYPES_FROM:
            down = change.upgrade_type is not UpgradeType.UPGRADE
            return kind.FeatureUpdateKey(feature=name, max_version_level=change.max_version_level, allow_downgrade=down)
        return kind.FeatureUpdateKey(
            feature=name, max_version_level=change.max_version_level, upgrade_type=change.upgrade_type
        )

    def build(version: int) -> UpdateFeaturesRequest:
        return kind(
            feature_updates=[update(name, version) for name in wanted],
            validate_only=validate_only,
            timeout_ms=int(deadline.remaining() * 1000),
        )

    def attempt() -> Operation[UpdateFeaturesResponse]:
        minimum = _TYPES_FROM if validate_only or lossy else None
        answer: UpdateFeaturesResponse = yield from core.request(core.controller(), kind, build, deadline, minimum)
        raise_for_code(answer.error_code, answer.error_message)
        return answer

    answer = yield from core.retry(attempt, deadline)
    # From version 2 on, all updates have the same outcome, which is that of the response.
    outcomes: Outcomes[str, None] = {each.feature: _failure(each) for each in answer.results}
    return settled(wanted, outcomes or dict.fromkeys(wanted))


def _failure(result: UpdateFeaturesResponse.UpdatableFeatureResult) -> KafkaError | None:
    return error_from_code(result.error_code, result.error_message) if result.error_code else None
