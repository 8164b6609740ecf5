"""The settings of a consumer group: its own, otherwise the broker's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from refbroker.config import BrokerConfig
from refbroker.coordinators.groups.assignors import ASSIGNORS
from refbroker.metadata.features import GROUP_VERSION
from refbroker.metadata.image import GROUP_RESOURCE, ClusterImage
from refbroker.settings.group_table import GROUP_BOUNDS, GROUP_SYNONYMS
from refbroker.settings.values import parse_list

DISABLED, UPGRADE, DOWNGRADE, BIDIRECTIONAL = "disabled", "upgrade", "downgrade", "bidirectional"


class ConsumerSettings(NamedTuple):
    """Settings of a consumer group.

    Attributes:
        session_timeout_ms: how long a member may be silent, in milliseconds.
        heartbeat_interval_ms: how often members are to send heartbeats, in milliseconds.
        assignment_interval_ms: the minimum time between two target assignments, in milliseconds.
        max_size: how many members a group may have, and `classic_max_size`: one that becomes a classic group.
        assignors: the names of those that can be asked for; the first one is the default.
        migration_policy: in which direction groups may change their protocol while they have members.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    max_size: int = 2**31 - 1
    classic_max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = BIDIRECTIONAL

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group with members may become a consumer group."""
        return self.migration_policy in (UPGRADE, BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        """Whether a consumer group with members may become a classic group."""
        return self.migration_policy in (DOWNGRADE, BIDIRECTIONAL)


def settings_of(config: BrokerConfig, image: ClusterImage, group_id: str) -> ConsumerSettings:
    """Return the settings of a group."""
    own = image.config(GROUP_RESOURCE, group_id)
    return ConsumerSettings(
        session_timeout_ms=_effective(config, own, "consumer.session.timeout.ms"),
        heartbeat_interval_ms=_effective(config, own, "consumer.heartbeat.interval.ms"),
        assignment_interval_ms=_effective(config, own, "consumer.assignment.interval.ms"),
        max_size=config.integer("group.consumer.max.size"),
        classic_max_size=config.integer("group.max.size"),
        assignors=assignor_names(config),
        migration_policy=(config.text("group.consumer.migration.policy") or DISABLED).lower(),
    )


def is_enabled(config: BrokerConfig, image: ClusterImage) -> bool:
    """Return whether clients may use the consumer protocol."""
    protocols = parse_list(config.text("group.coordinator.rebalance.protocols") or "")
    return "consumer" in protocols and image.features.get(GROUP_VERSION, 0) >= 1


def assignor_names(config: BrokerConfig) -> tuple[str, ...]:
    """Return the names of the available assignors, the default one first; without Java classes."""
    wanted = parse_list(config.text("group.consumer.assignors") or "")
    return tuple(name for name in wanted if name in ASSIGNORS) or tuple(ASSIGNORS)


def _effective(config: BrokerConfig, own: Mapping[str, str], name: str) -> int:
    if name not in own:
        return config.integer(GROUP_SYNONYMS[name])
    # The limits may have changed since the group's setting was made.
    value, bounds = int(own[name]), GROUP_BOUNDS[name]
    if bounds.least is not None:
        value = max(value, config.integer(bounds.least))
    return value if bounds.most is None else min(value, config.integer(bounds.most))
