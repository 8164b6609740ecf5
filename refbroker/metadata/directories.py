"""In which data directory each partition is, as the metadata has it (KIP-858), and the records that keep it true.

A partition of a broker with several directories begins UNASSIGNED; the broker makes its log where there is room, and
the metadata learns where. When a directory fails, the partitions in it lose their leader. Source: `DirectoryId`,
`handleDirectoriesOffline` and `handleAssignReplicasToDirs` of Kafka's controller.
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
"""It has been placed by a broker that did not say where."""
UNASSIGNED = UUID(int=1)
"""It has not been placed yet."""
LOST = UUID(int=2)
"""In a directory that is offline, whichever that is."""

NO_LEADER = -1

FindDirectory = Callable[[str, int], UUID | None]
"""The id of the directory that has the log of a topic's partition, None when there is none."""


def directory_on(state: PartitionState, node: int) -> UUID:
    """In which directory of a broker a partition is."""
    found = dict(zip(state.replicas, state.directories, strict=False))
    return found.get(node, MIGRATING)


def default_directory(image: ClusterImage, node: int) -> UUID:
    """What a new partition of a broker is assigned to: its only directory, or none yet."""
    registered = image.brokers.get(node)
    directories = [] if registered is None else registered.record.log_dirs
    if registered is not None and not directories:
        return MIGRATING
    return directories[0] if len(directories) == 1 else UNASSIGNED


def takes_new_partitions(record: RegisterBrokerRecord) -> bool:
    """Whether a broker has a directory that is not cordoned; one that says nothing of its directories has."""
    return not record.log_dirs or not set(record.log_dirs) <= set(record.cordoned_log_dirs or ())


def offline_replicas(image: ClusterImage, state: PartitionState) -> list[int]:
    """The replicas that cannot be used: of brokers that are gone or fenced, or in directories that are offline."""
    offline = []
    for node in state.replicas:
        registered = image.brokers.get(node)
        if registered is None or registered.fenced or not _is_online(registered.record.log_dirs, state, node):
            offline.append(node)
    return offline


def _is_online(directories: Sequence[UUID], state: PartitionState, node: int) -> bool:
    found = directory_on(state, node)
    return found in (UNASSIGNED, MIGRATING) or not directories or found in directories


def partition_changes(image: ClusterImage, node: int, find: FindDirectory, *, elect: bool) -> Iterator[Message]:
    """What brings the metadata in line with the logs that a broker has.

    A partition that has a log is assigned to the log's directory, and led; one that has none loses its leader.

    Parameters:
        node: the broker, which is the only replica.
        find: where its logs are.
        elect: begin a new term for every partition that has a log, as at a start.
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
                # Apache Kafka leaves the only replica eligible when it stops in order, and unclean after a disaster.
                change.eligible_leader_replicas = [] if state.eligible_leader_replicas else None
                change.last_known_elr = [] if state.last_known_elr else None
                change.leader_recovery_state = 0 if state.leader_recovery_state else -1
            if moved or not led:
                yield change


def directories_change(
    image: ClusterImage, node: int, online: Sequence[UUID], cordoned: Sequence[UUID]
) -> Iterator[Message]:
    """What tells the metadata of directories that have failed, and of those that get no new partitions.

    Parameters:
        online: the ids of the directories that can be used.
        cordoned: the ids of those that get no new partitions.
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
