"""The handling of failed data directories, and when the metadata must learn about directories.

Corresponds to Kafka's `LogDirFailureChannel` and `DirectoryEventHandler`. A disk may fail in any thread; only requests
for that directory get errors. On the next turn of the event loop, the logs of the directory are removed, long polls
for them are answered, and the metadata loses the directory in the broker's registration and the leaders of its
partitions. The broker stops if the directory of the metadata log fails, or if no directory is left. Elsewhere: how the
metadata is changed (`records`, `assignments`).
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
from refbroker.metadata.directories import UNASSIGNED
from refbroker.metadata.image import BROKER_RESOURCE

logger = logging.getLogger(__name__)


FindHome = Callable[[str, int], UUID | None]
"""Returns the id of the online directory that has the log of a partition, or None."""


class DirectoryReports(Protocol):
    """How the metadata of the cluster learns about the directories of a broker."""

    def report(self, find: FindHome) -> None:
        """Report what the metadata lacks about the directories and the partitions in them.

        Raises:
            KafkaStorageError: the metadata log could not be written.
        """

    def assign(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Report that the partition of a log is in another directory.

        Raises:
            KafkaStorageError: the metadata log could not be written.
        """


class DirectoryEvents:
    """The updates of the cluster metadata for the data directories of a broker.

    Parameters:
        logs: the broker's logs.
        reports: reports changes to the controller.
        on_lost: called with each log of a failed directory.
        on_fatal: called if the broker must stop.
    """

    def __init__(
        self,
        logs: LogManager,
        reports: DirectoryReports,
        on_lost: Callable[[PartitionLog], None],
        on_fatal: Callable[[KafkaStorageError], None],
    ) -> None:
        self._logs = logs
        self._reports = reports
        self._on_lost = on_lost
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._planned = False
        logs.on_directory_failure = self.directory_failed

    def find(self, topic: str, partition: int) -> UUID | None:
        """Return the id of the online directory that has the log of a partition, or None."""
        directory = self._logs.directory_of(topic, partition)
        return None if directory is None or not directory.is_online else directory.directory_id

    def directory_failed(self, directory: LogDirectory) -> None:
        """Schedule taking a directory offline. Any thread may call this."""
        self._loop.call_soon_threadsafe(self._take_offline, directory)

    def _take_offline(self, directory: LogDirectory) -> None:
        logs, failure = self._logs, directory.health.failure
        assert failure is not None
        lost = logs.take_offline(directory)
        logger.error("%s is offline, with %d logs in it", directory.path, len(lost))
        if directory is logs.metadata_directory or not logs.online:
            self._on_fatal(KafkaStorageError(f"the broker stops because it needs {directory.path}: {failure.message}"))
            return
        self._inform()
        for log in lost:
            self._on_lost(log)

    def follow(self, records: Sequence[Message]) -> None:
        """Schedule `inform` if metadata records add unassigned partitions or change which directories are cordoned."""
        if not self._planned and any(map(_concerns_directories, records)):
            self._planned = True
            self._loop.call_soon(self._inform)

    def inform(self) -> None:
        """Report what the metadata lacks about the directories and the partitions in them.

        Raises:
            KafkaStorageError: the metadata log could not be written.
        """
        self._planned = False
        self._reports.report(self.find)

    def _inform(self) -> None:
        if not self._logs.metadata_directory.is_online:
            return
        try:
            self.inform()
        except KafkaStorageError as error:
            # This error took the metadata directory offline, which stops the broker.
            logger.error("%s", error)

    def assign(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Report that the partition of a log is in another directory.

        Raises:
            KafkaStorageError: the metadata log could not be written.
        """
        self._reports.assign(log, directory)


def _concerns_directories(record: Message) -> bool:
    if isinstance(record, ConfigRecord):
        return record.resource_type == BROKER_RESOURCE
    return isinstance(record, (PartitionRecord, PartitionChangeRecord)) and UNASSIGNED in (record.directories or ())
