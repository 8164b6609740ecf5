"""What a broker does when a data directory fails, and how the metadata learns where partitions are.

Kafka's `LogDirFailureChannel` and `DirectoryEventHandler`. A disk fails in the middle of something, in whatever thread;
the errors that follow concern the requests for that directory alone. On the next turn of the event loop its logs are
taken away, long polls for them are answered, and the metadata gets records: the directory is gone from the broker's
registration, its partitions have no leader. Without the directory of the metadata log, or without any, the broker
cannot go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol
from uuid import UUID

from kclient.errors import KafkaStorageError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import ConfigRecord, PartitionChangeRecord, PartitionRecord
from refbroker.log import LogDirectory, LogManager, PartitionLog
from refbroker.metadata.directories import UNASSIGNED, directories_change, directory_on, partition_changes
from refbroker.metadata.image import BROKER_RESOURCE, ClusterImage

logger = logging.getLogger(__name__)


class ClusterMetadata(Protocol):
    """Where the cluster learns about data directories."""

    @property
    def image(self) -> ClusterImage:
        """The state of the cluster."""

    def append(self, records: Sequence[Message]) -> None:
        """Change the state of the cluster, all or nothing.

        Raises:
            KafkaStorageError: the records could not be stored.
        """


class DirectoryEvents:
    """Keeps the metadata true about the data directories of a broker.

    Parameters:
        logs: the broker's logs.
        metadata: of the cluster.
        node_id: the broker's id.
        on_lost: called with each log of a directory that has failed.
        on_fatal: called when the broker cannot go on.
    """

    def __init__(
        self,
        logs: LogManager,
        metadata: ClusterMetadata,
        node_id: int,
        on_lost: Callable[[PartitionLog], None],
        on_fatal: Callable[[KafkaStorageError], None],
    ) -> None:
        self._logs = logs
        self._metadata = metadata
        self._node_id = node_id
        self._on_lost = on_lost
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._planned = False
        logs.on_directory_failure = self.directory_failed

    def find(self, topic: str, partition: int) -> UUID | None:
        """The id of the directory that has the log of a partition, None when there is none."""
        directory = self._logs.directory_of(topic, partition)
        return None if directory is None or not directory.is_online else directory.directory_id

    def directory_failed(self, directory: LogDirectory) -> None:
        """Have a directory taken offline soon. Any thread may call this."""
        self._loop.call_soon_threadsafe(self._take_offline, directory)

    def _take_offline(self, directory: LogDirectory) -> None:
        logs, failure = self._logs, directory.health.failure
        assert failure is not None
        lost = logs.take_offline(directory)
        logger.error("%s is offline, with %d logs in it", directory.path, len(lost))
        if directory is logs.metadata_directory or not logs.online:
            self._on_fatal(KafkaStorageError(f"the broker cannot go on without {directory.path}: {failure.message}"))
            return
        self._inform()
        for log in lost:
            self._on_lost(log)

    def follow(self, records: Sequence[Message]) -> None:
        """Take note of a change of the metadata: new partitions are to be assigned, directories may be cordoned."""
        if not self._planned and any(map(_concerns_directories, records)):
            self._planned = True
            self._loop.call_soon(self._inform)

    def inform(self) -> None:
        """Tell the metadata what it does not know yet of the directories, and of the partitions in them.

        Raises:
            KafkaStorageError: the metadata log could not be written.
        """
        self._planned = False
        logs, image, node = self._logs, self._metadata.image, self._node_id
        online = [directory.directory_id for directory in logs.online]
        cordoned = [directory.directory_id for directory in logs.cordoned if directory.directory_id.int]
        # The partitions first, as Kafka's controller does it: none has a leader in a directory that is offline.
        changes = [
            *partition_changes(image, node, self.find, elect=False),
            *directories_change(image, node, online, cordoned),
        ]
        if changes:
            self._metadata.append(changes)

    def _inform(self) -> None:
        if not self._logs.metadata_directory.is_online:
            return
        try:
            self.inform()
        except KafkaStorageError as error:
            # The metadata directory has failed with that, which ends the broker.
            logger.error("%s", error)

    def assign(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Tell the metadata that the partition of a log is in another directory from now on.

        Raises:
            KafkaStorageError: the metadata log could not be written.
        """
        state = self._metadata.image.topics_by_id[log.topic_id].partitions[log.partition]
        directories = [
            directory.directory_id if node == self._node_id else directory_on(state, node) for node in state.replicas
        ]
        change = PartitionChangeRecord(partition_id=log.partition, topic_id=log.topic_id, directories=directories)
        self._metadata.append([change])


def _concerns_directories(record: Message) -> bool:
    if isinstance(record, ConfigRecord):
        return record.resource_type == BROKER_RESOURCE
    return isinstance(record, PartitionRecord) and UNASSIGNED in record.directories
