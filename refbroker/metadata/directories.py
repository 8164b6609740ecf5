"""The data directory of each partition in the metadata (KIP-858), and the records that keep it up to date.

A new partition of a broker with several directories is UNASSIGNED; the broker creates its log in one of them and then
records which. If a directory fails, its partitions lose their leader. Source: `DirectoryId`, `handleDirectoriesOffline`
and `handleAssignReplicasToDirs` of Kafka's controller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from refbroker.metadata.image import ClusterImage, PartitionState
from refbroker.metadata.versions import CORDONED_DIRECTORIES, DIRECTORIES

MIGRATING = UUID(int=0)
"""Assigned by a broker that did not record the directory."""
UNASSIGNED = UUID(int=1)
"""Not assigned yet."""
LOST = UUID(int=2)
"""In an offline directory, whichever it is."""
LAST_RESERVED = UUID(int=99)
"""Ids up to this one are no directories."""

NO_LEADER = -1

FindDirectory = Callable[[str, int], UUID | None]
"""Returns the id of the directory with the log of a partition, None without a log."""


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


def partition_changes(image: ClusterImage, node: int, find: FindDirectory, *, elect: bool) -> Iterator[Message]:
    """Yield the records that align the metadata with the logs of a broker.

    A partition with a log is assigned to the directory of the log and gets a leader; one without a log loses its
    leader.

    Parameters:
        node: the broker, the only replica.
        find: finds the directories of its logs.
        elect: whether every partition with a log gets a new leader epoch, as at a start.
    """
    for topic in image.topics.values():
        for number, state in topic.partitions.items():
            if node not in state.replicas:
                continue
            home = find(topic.name, number)
            change = PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id)
            if home is None:
                if state.leader == node:
                    change.leader = NO_LEADER
                    yield change
                continue
            moved = home != directory_on(state, node) and image.metadata_version >= DIRECTORIES
            if moved:
                change.directories = [
                    home if replica == node else directory_on(state, replica) for replica in state.replicas
                ]
            led = state.leader == node and not elect
            if not led:
                change.leader = node
                change.isr = None if state.isr == [node] else [node]
                # Apache Kafka leaves the only replica as an eligible leader after a clean stop, and unclean after a
                # crash.
                change.eligible_leader_replicas = [] if state.eligible_leader_replicas else None
                change.last_known_elr = [] if state.last_known_elr else None
                change.leader_recovery_state = 0 if state.leader_recovery_state else -1
            if moved or not led:
                yield change


def directories_change(
    image: ClusterImage, node: int, online: Sequence[UUID], cordoned: Sequence[UUID]
) -> Iterator[Message]:
    """Yield the records about failed directories, and about those that are cordoned.

    Parameters:
        online: the ids of the usable directories.
        cordoned: the ids of the cordoned ones.
    """
    registered, level = image.brokers[node], image.metadata_version
    if level >= DIRECTORIES and sorted(registered.record.log_dirs) != sorted(online):
        yield BrokerRegistrationChangeRecord(
            broker_id=node, broker_epoch=registered.broker_epoch, log_dirs=sorted(online)
        )
    if level >= CORDONED_DIRECTORIES and sorted(registered.record.cordoned_log_dirs or ()) != sorted(cordoned):
        yield BrokerRegistrationChangeRecord(
            broker_id=node, broker_epoch=registered.broker_epoch, cordoned_log_dirs=sorted(cordoned)
        )
