"""The logs of a broker, found by topic name, by topic id, and by the directory they are in."""

from __future__ import annotations

import uuid

from refbroker.log.log_dir import Key, LogDirectory
from refbroker.log.partition_log import PartitionLog


class LogTable:
    """Current logs, at most one of each partition."""

    def __init__(self) -> None:
        self._by_id: dict[tuple[uuid.UUID, int], PartitionLog] = {}
        self._by_name: dict[Key, PartitionLog] = {}
        self._directory_of: dict[Key, LogDirectory] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._by_name

    def all(self) -> list[PartitionLog]:
        return list(self._by_name.values())

    def get(self, topic: str | uuid.UUID, partition: int) -> PartitionLog | None:
        """The log of a partition by its topic's name or id, None when there is none."""
        if isinstance(topic, str):
            return self._by_name.get((topic, partition))
        return self._by_id.get((topic, partition))

    def directory_of(self, key: Key) -> LogDirectory | None:
        """Where the log of a partition is, None when there is none."""
        return self._directory_of.get(key)

    def within(self, directory: LogDirectory) -> list[Key]:
        """The partitions whose logs are in a directory."""
        return [key for key, found in self._directory_of.items() if found is directory]

    def put(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Take a log in, in place of the one that the partition had."""
        key = (log.topic, log.partition)
        if key in self._by_name:
            self.remove(key)
        self._by_name[key] = log
        self._directory_of[key] = directory
        self.index_by_id(log)

    def index_by_id(self, log: PartitionLog) -> None:
        """Find a log by its topic's id too, once it has one."""
        if log.topic_id.int:
            self._by_id[log.topic_id, log.partition] = log

    def remove(self, key: Key) -> PartitionLog:
        """Take a log out."""
        log = self._by_name.pop(key)
        self._by_id.pop((log.topic_id, log.partition), None)
        del self._directory_of[key]
        return log
