"""The records about data directories on a node that is its own controller.

Elsewhere: the requests of a broker under another controller (`assignments`), and when something has changed (`events`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kclient.protocol import Message
from refbroker.controller.cluster import Cluster
from refbroker.controller.local_broker import assignment_records, directory_records
from refbroker.controller.partition_index import PartitionId
from refbroker.directories.events import FindHome
from refbroker.log import LogDirectory, LogManager, PartitionLog


class ClusterMetadata(Protocol):
    """The part of the cluster metadata that is read and changed."""

    @property
    def cluster(self) -> Cluster:
        """What plans read of the cluster."""

    def append(self, records: Sequence[Message]) -> None:
        """Append records to the metadata log atomically and apply them to the image.

        Raises:
            KafkaStorageError: the records could not be stored.
        """


class DirectoryRecords:
    """Appends the records about directories; `DirectoryReports` of a node that is its own controller.

    Parameters:
        logs: the broker's logs.
        metadata: the metadata of the cluster.
        node_id: the broker's id.
    """

    def __init__(self, logs: LogManager, metadata: ClusterMetadata, node_id: int) -> None:
        self._logs = logs
        self._metadata = metadata
        self._node_id = node_id

    def report(self, find: FindHome) -> None:
        """See DirectoryReports."""
        logs = self._logs
        online = [directory.directory_id for directory in logs.online]
        cordoned = [directory.directory_id for directory in logs.cordoned if directory.directory_id.int]
        self._metadata.append(directory_records(self._metadata.cluster, self._node_id, find, online, cordoned))

    def assign(self, log: PartitionLog, directory: LogDirectory) -> None:
        """See DirectoryReports."""
        moved = {PartitionId(log.topic_id, log.partition): directory.directory_id}
        self._metadata.append(assignment_records(self._metadata.cluster, self._node_id, moved))
