"""The data directory of each partition in the metadata (KIP-858).

A new partition of a broker with several directories is UNASSIGNED; the broker creates its log in one of them and then
records which. If a directory fails, its partitions lose their leader. Source: `DirectoryId` of Kafka. Elsewhere: the
records that keep it up to date (`refbroker.controller`).
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from kclient.protocol.messages.records.metadata_log import (
    RegisterBrokerRecord,
)
from refbroker.metadata.image import ClusterImage, PartitionState

MIGRATING = UUID(int=0)
"""Assigned by a broker that did not record the directory."""
UNASSIGNED = UUID(int=1)
"""Not assigned yet."""
LOST = UUID(int=2)
"""In an offline directory, whichever it is."""
LAST_RESERVED = UUID(int=99)
"""Ids up to this one are no directories."""

NO_LEADER = -1


def directory_on(state: PartitionState, node: int) -> UUID:
    """Return the directory of a partition on a broker."""
    found = dict(zip(state.replicas, state.directories, strict=False))
    return found.get(node, MIGRATING)


def default_directory(image: ClusterImage, node: int) -> UUID:
    """Return the directory of a broker's new partition: the only one, or UNASSIGNED."""
    registered = image.brokers.get(node)
    directories = [] if registered is None else registered.record.log_dirs
    if registered is not None and not directories:
        return MIGRATING
    return directories[0] if len(directories) == 1 else UNASSIGNED


def takes_new_partitions(record: RegisterBrokerRecord) -> bool:
    """Return whether a broker has a directory that is not cordoned; assumed if it has not listed any."""
    return not record.log_dirs or not set(record.log_dirs) <= set(record.cordoned_log_dirs or ())


def offline_replicas(image: ClusterImage, state: PartitionState, listener: str | None = None) -> list[int]:
    """Return the replicas that cannot be used, on absent or fenced brokers or in offline directories.

    Parameters:
        listener: that of the client, which cannot use a broker without it; None for all.
    """
    return [node for node in state.replicas if not _is_usable(image, state, node, listener)]


def _is_usable(image: ClusterImage, state: PartitionState, node: int, listener: str | None) -> bool:
    registered = image.brokers.get(node)
    if registered is None or registered.fenced:
        return False
    if listener is not None and listener not in registered.endpoints:
        return False
    return _is_online(registered.record.log_dirs, state, node)


def _is_online(directories: Sequence[UUID], state: PartitionState, node: int) -> bool:
    found = directory_on(state, node)
    return found in (UNASSIGNED, MIGRATING) or not directories or found in directories
