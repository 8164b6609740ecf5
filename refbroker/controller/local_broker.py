"""The broker on the node of the controller: its start, the directories of its logs, and its stop.

It is registered, unfenced and fenced by the plans for all brokers, but nothing has to wait: its session does not end,
and it has read all metadata. A start therefore ends the previous incarnation of the broker, registers it, assigns its
partitions to the directories of their logs, and unfences it. A clean stop fences it and leaves its partitions without a
leader, so that the next broker, even Kafka, need not wait until this registration has timed out. A client may
unregister it, as any broker; it then has no partitions until the next start, and nothing more is recorded about it.

Elsewhere: the requests of brokers on other nodes (`broker_requests`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest
from refbroker.controller import brokers
from refbroker.controller.active import ActiveController
from refbroker.controller.cluster import Cluster
from refbroker.controller.directory_assignments import plan_assignment
from refbroker.controller.elections import plan_updates, rules_of
from refbroker.controller.partition_changes import RECOVERED, RECOVERING, Target, plan_change
from refbroker.controller.partition_index import PartitionId
from refbroker.metadata.directories import LOST, MIGRATING, UNASSIGNED, directory_on
from refbroker.metadata.versions import CORDONED_DIRECTORIES, DIRECTORIES

FindDirectory = Callable[[str, int], UUID | None]
"""Returns the id of the online directory with the log of a partition, None without a log."""


def start_broker(controller: ActiveController, request: BrokerRegistrationRequest, find: FindDirectory) -> None:
    """Register and unfence the broker of the controller's node.

    Parameters:
        request: what it registers with.
        find: finds the directories of its logs.

    Raises:
        KafkaStorageError: the metadata log could not be written.
    """
    cluster, node = controller.cluster, request.broker_id
    records, _ = brokers.plan_registration(
        cluster,
        controller.liveness,
        request,
        version=request.max_version,
        cluster_id=controller.cluster_id,
        kraft_version=controller.voters.kraft_version,
        broker_epoch=controller.end_offset,
        now_ms=controller.now_ms,
        is_local=True,
    )
    controller.append(records)
    controller.append(_assignments(cluster, node, find))
    controller.append(brokers.unfence(cluster, node))
    controller.append(_recoveries(cluster, node))


def stop_broker(controller: ActiveController) -> None:
    """Fence the broker of the controller's node, which leads no more.

    Raises:
        KafkaStorageError: the metadata log could not be written.
    """
    node = controller.node_id
    if node not in controller.image.brokers:
        # It was unregistered.
        return
    controller.append(brokers.begin_shutdown(controller.cluster, node))
    controller.append(brokers.fence(controller.cluster, node))


def directory_records(
    cluster: Cluster, node: int, find: FindDirectory, online: Sequence[UUID], cordoned: Sequence[UUID]
) -> list[Message]:
    """Return the records that the metadata lacks about the directories of a broker and the partitions in them.

    Parameters:
        find: finds the directories of its logs.
        online: the ids of the usable directories.
        cordoned: the ids of those that take no new partitions.
    """
    registered, level = cluster.image.brokers.get(node), cluster.image.metadata_version
    if registered is None:
        return []
    records: list[Message] = _assignments(cluster, node, find)
    if level >= DIRECTORIES:
        failed = [directory for directory in registered.record.log_dirs if directory not in online]
        records += brokers.take_offline(cluster, registered, failed)
    if level >= CORDONED_DIRECTORIES:
        records += brokers.cordon(registered, sorted(cordoned))
    return records


def assignment_records(cluster: Cluster, node: int, directories: Mapping[PartitionId, UUID]) -> list[Message]:
    """Return the records that assign replicas on a broker to directories.

    Parameters:
        directories: the new directory of each partition.
    """
    one, registered = AssignReplicasToDirsRequest, cluster.image.brokers.get(node)
    if registered is None:
        return []
    request = one(broker_id=node, broker_epoch=registered.broker_epoch)
    for partition, directory in directories.items():
        topic = one.TopicData(
            topic_id=partition.topic_id, partitions=[one.PartitionData(partition_index=partition.number)]
        )
        request.directories.append(one.DirectoryData(id=directory, topics=[topic]))
    return [*plan_assignment(cluster, request).records]


def _assignments(cluster: Cluster, node: int, find: FindDirectory) -> list[Message]:
    """Return the records that bring the metadata in line with where the logs of a broker are.

    A replica whose log is in no directory that is online, and which has not been assigned to one, is lost.
    """
    moved: dict[PartitionId, UUID] = {}
    for topic in cluster.image.topics.values():
        for number, state in topic.partitions.items():
            if node not in state.replicas:
                continue
            home, present = find(topic.name, number), directory_on(state, node)
            if home is None and present in (UNASSIGNED, MIGRATING):
                home = LOST
            if home is not None and home != present:
                moved[PartitionId(topic.topic_id, number)] = home
    if cluster.image.metadata_version >= DIRECTORIES:
        return assignment_records(cluster, node, moved)
    lost = [partition for partition, home in moved.items() if home == LOST]
    return [*plan_updates(cluster, lost, removed=node)]


def _recoveries(cluster: Cluster, node: int) -> list[Message]:
    """Return the records by which leaders on a broker have recovered from unclean elections.

    Their logs were recovered before the broker started.
    """
    records: list[Message] = []
    for topic_id, number in cluster.index.led(node):
        topic = cluster.image.topics_by_id[topic_id]
        state = topic.partitions[number]
        if state.leader_recovery_state == RECOVERING:
            target = Target.of(state)
            target.recovery_state = RECOVERED
            change = plan_change(topic_id, state, target, rules_of(cluster, topic, state))
            records += [] if change is None else [change]
    return records
