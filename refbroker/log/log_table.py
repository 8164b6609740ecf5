"""The table of a broker's logs by topic name, topic id and data directory."""

from __future__ import annotations

import uuid

from refbroker.log.log_dir import Key, LogDirectory
from refbroker.log.partition_log import PartitionLog


class LogTable:
    """The current logs, at most one per partition."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[uuid.UUID, int], PartitionLog] = {}
        self._by_name: dict[Key, PartitionLog] = {}
        self._directory_of: dict[Key, LogDirectory] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._by_name

    def all(self) -> list[PartitionLog]:
        return list(self._by_name.values())

    def get(self, topic: str | uuid.UUID, partition: int) -> PartitionLog | None:
        """Return the log of a partition by its topic's name or id, or None."""
        if isinstance(topic, str):
            return self._by_name.get((topic, partition))
        return self._by_id.get((topic, partition))

    def directory_of(self, key: Key) -> LogDirectory | None:
        """Return the data directory of a partition's log, None if the partition has no log."""
        return self._directory_of.get(key)

    def within(self, directory: LogDirectory) -> list[Key]:
        """Return the partitions whose logs are in a directory."""
        return [key for key, found in self._directory_of.items() if found is directory]

    def put(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Add a log, replacing the previous log of the partition."""
        key = (log.topic, log.partition)
        if key in self._by_name:
            self.remove(key)
        self._by_name[key] = log
        self._directory_of[key] = directory
        self.index_by_id(log)

    def index_by_id(self, log: PartitionLog) -> None:
        """Add a log to the index of topic ids, if its topic id is known."""
        if log.topic_id.int:
            self._by_id[log.topic_id, log.partition] = log

    def remove(self, key: Key) -> PartitionLog:
        """Remove and return the log of a partition."""
        log = self._by_name.pop(key)
        self._by_id.pop((log.topic_id, log.partition), None)
        del self._directory_of[key]
        return log
