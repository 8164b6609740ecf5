"""Builds a broker that joins a cluster of other controllers, and takes it out of the cluster again.

Nothing in the data directories may be judged by metadata that is not up to date: a log whose topic is unknown is set
aside. So the parts follow the metadata from the moment at which the controller says that this broker has caught up.

Elsewhere: the parts themselves (`refbroker.building`), the requests to the controllers (`refbroker.membership`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kclient.errors import ConfigError, KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord, PartitionRecord
from refbroker.building import BrokerParts, begin, build_member, follow_metadata
from refbroker.config import BrokerConfig
from refbroker.directories.assignments import DirectoryAssignments
from refbroker.directories.events import DirectoryReports
from refbroker.directories.formatting import cluster_of, directories_of
from refbroker.log import Files, LogManager
from refbroker.membership import ClusterMembership, NodeParts
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.replica import MetadataReplica
from refbroker.peers.network import Connector
from refbroker.runtime.clock import Clock

logger = logging.getLogger(__name__)


async def join(
    config: BrokerConfig,
    clock: Clock,
    files: Files,
    rng: random.Random,
    ports: Mapping[str, int],
    connector: Connector,
) -> BrokerParts:
    """Open the data directories, register at the controller, and wait until the metadata is up to date.

    Parameters: as for `refbroker.building.build`.
        connector: the network.

    Raises:
        ConfigError: the settings contradict each other, or the data directories are not formatted.
        KafkaStorageError: a data directory is in use, or a disk fails.
        InconsistentClusterIdError: a data directory belongs to another cluster or node, or the controllers do.
        RequestTimedOutError: no controller has answered within `initial.broker.registration.timeout.ms`.
        UnsupportedVersionError: the cluster has features that this broker does not support.
    """
    _check_formatted(config, files)

    def make(
        logs: LogManager, metadata: MetadataReplica, fail: Callable[[KafkaError], None]
    ) -> tuple[ClusterMembership, DirectoryReports]:
        node = NodeParts(config, logs, metadata, files, clock, rng)
        membership = ClusterMembership(node, ports, connector, fail)
        changed = membership.directories_changed
        return membership, DirectoryAssignments(metadata.image, config.node_id, membership.controller, changed)

    parts = build_member(config, clock, files, rng, make)
    assert parts.membership is not None
    try:
        parts.membership.start()
        await _caught_up(parts)
        follow_metadata(parts)
        parts.metadata.listeners.append(parts.directory_events.follow)
        parts.metadata.listeners.append(_ReplicationWarnings(parts.image, parts.node_id).follow)
        parts.directory_events.inform()
        begin(parts)
    except BaseException:
        await parts.membership.close()
        parts.close_coordinators()
        parts.logs.abandon()
        raise
    return parts


def _check_formatted(config: BrokerConfig, files: Files) -> None:
    """Check that the cluster of the data directories is known: a new id would be that of another cluster.

    Raises:
        ConfigError: no data directory is formatted.
    """
    directories, metadata = directories_of(config)
    if cluster_of([*directories, metadata], files) is None:
        raise ConfigError(
            f"{metadata} is not formatted; a broker under other controllers needs the id of their cluster: "
            f"refbroker format --cluster-id ID --config FILE"
        )


async def _caught_up(parts: BrokerParts) -> None:
    """Wait until the metadata is up to date.

    Raises:
        KafkaError: the broker cannot join.
    """
    assert parts.membership is not None
    waiting: list[asyncio.Future[Any]] = [parts.membership.caught_up, parts.failed]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if parts.failed.done():
        raise parts.failed.result()


class _ReplicationWarnings:
    """Log lines about topics that need replication, which this broker does not have yet."""

    def __init__(self, image: ClusterImage, node_id: int) -> None:
        self._image = image
        self._node_id = node_id

    def follow(self, records: Sequence[Message]) -> None:
        """Check the partitions of a change."""
        topics: dict[str, None] = {}
        for record in records:
            if not isinstance(record, (PartitionRecord, PartitionChangeRecord)) or not record.replicas:
                continue
            topic = self._image.topics_by_id.get(record.topic_id)
            if topic is not None and self._node_id in record.replicas and len(record.replicas) > 1:
                topics[topic.name] = None
        for name in topics:
            logger.warning(
                "topic %s has replicas on this broker and on others, but this broker does not replicate yet: it does "
                "not follow, and what it leads is not acknowledged with acks=all while others are in sync",
                name,
            )


async def serve(parts: BrokerParts) -> None:
    """Ask the controller to unfence the broker, which serves already, and wait until it does.

    Raises:
        KafkaError: the broker cannot stay in the cluster.
    """
    assert parts.membership is not None
    parts.membership.ready()
    waiting: list[asyncio.Future[Any]] = [parts.membership.unfenced, parts.failed]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if parts.failed.done():
        raise parts.failed.result()


async def leave(parts: BrokerParts) -> None:
    """Leave the cluster in order: the controller fences the broker, and other brokers lead its partitions."""
    if parts.membership is None or not parts.config.boolean("controlled.shutdown.enable"):
        return
    try:
        await parts.membership.leave()
    except KafkaError as error:
        logger.warning("no controlled shutdown: %s", error)
