"""What a broker registers with, and why a controller refuses it.

Elsewhere: when it registers (`machine`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kclient.errors import (
    DuplicateBrokerRegistrationError,
    InconsistentClusterIdError,
    InvalidRegistrationError,
    KafkaError,
    UnsupportedVersionError,
    error_from_code,
)
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest
from refbroker.config import BrokerConfig
from refbroker.log import LogManager
from refbroker.settings.listeners import Listener, SecurityProtocol

NO_EPOCH = -1


class Registration(NamedTuple):
    """What a broker registers with.

    Attributes:
        node_id: the broker.
        cluster_id: the cluster.
        incarnation_id: the id of this start.
        listeners: the advertised addresses, with their security protocols.
        features: the supported levels of each feature.
        rack: of the broker.
        directories: the ids of its data directories.
        previous_epoch: the broker epoch that the marker of a clean stop has; -1 after an unclean one.
    """

    node_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: Sequence[tuple[Listener, SecurityProtocol]]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    directories: Sequence[UUID]
    previous_epoch: int = NO_EPOCH

    @classmethod
    def of_start(
        cls,
        config: BrokerConfig,
        logs: LogManager,
        ports: Mapping[str, int],
        incarnation_id: UUID,
        features: Mapping[str, tuple[int, int]],
    ) -> Registration:
        """Return what a broker registers with at a start.

        Parameters:
            logs: its data directories.
            ports: the port of each listener, by its name.
            incarnation_id: the id of this start.
            features: the supported levels of each feature.
        """
        return cls(
            node_id=config.node_id,
            cluster_id=logs.cluster_id,
            incarnation_id=incarnation_id,
            listeners=[(each, config.listeners.protocol(each.name)) for each in config.listeners.advertised(ports)],
            features=features,
            rack=config.rack,
            directories=[directory.directory_id for directory in logs.online],
            previous_epoch=logs.previous_broker_epoch,
        )

    def request(self) -> BrokerRegistrationRequest:
        """Return the request."""
        kind = BrokerRegistrationRequest
        return kind(
            broker_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                kind.Listener(name=each.name, host=each.host, port=each.port, security_protocol=protocol)
                for each, protocol in self.listeners
            ],
            features=[
                kind.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in self.features.items()
            ],
            rack=self.rack,
            is_migrating_zk_broker=False,
            log_dirs=sorted(self.directories),
            previous_broker_epoch=self.previous_epoch,
        )


LASTING_REFUSALS = (InconsistentClusterIdError, UnsupportedVersionError, InvalidRegistrationError)
"""Refusals that repeating the registration does not change."""


def refusal(code: int, registration: Registration) -> KafkaError:
    """Return the error of a refused registration, with what to do about it."""
    node = registration.node_id
    if code == InconsistentClusterIdError.code:
        return InconsistentClusterIdError(
            f"the controllers are not of the cluster {registration.cluster_id}; format the data directories of broker "
            f"{node} with the id of theirs"
        )
    if code == UnsupportedVersionError.code:
        ranges = ", ".join(f"{name} {low}-{high}" for name, (low, high) in registration.features.items())
        return UnsupportedVersionError(
            f"the cluster has features that broker {node} does not support; it supports {ranges}. Format the cluster "
            f"without share and streams groups, or disable them with kafka-features.sh"
        )
    if code == DuplicateBrokerRegistrationError.code:
        return DuplicateBrokerRegistrationError(
            f"another broker {node} is registered; stop it, or wait until its session has timed out"
        )
    return error_from_code(code)
