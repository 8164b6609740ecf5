"""Applies the metadata to the logs of partitions and the settings of the broker.

Called with the records of each change after they are replayed, and once at the start for the whole state. If a disk
fails, the partition stays without a log, and its requests get the error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from uuid import UUID

from kclient.errors import KafkaStorageError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from refbroker.config import BrokerConfig
from refbroker.log import LogConfig, LogManager, PartitionLog
from refbroker.metadata.directories import UNASSIGNED, directory_on
from refbroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, ClusterImage
from refbroker.settings.definitions import Setting, broker_settings, topic_settings

logger = logging.getLogger(__name__)


class Publisher:
    """Applies the state of the cluster to this broker.

    Parameters:
        image: the state.
        logs: the logs of this broker.
        config: its settings.
        on_deleted: called with a log that has just been deleted.
    """

    def __init__(
        self,
        image: ClusterImage,
        logs: LogManager,
        config: BrokerConfig,
        on_deleted: Callable[[PartitionLog], None],
    ) -> None:
        self._image = image
        self._logs = logs
        self._config = config
        self._on_deleted = on_deleted
        self._noted: set[tuple[str, str]] = set()

    def catch_up(self) -> None:
        """Apply the whole state, as after a restart."""
        self._update_broker()
        self._logs.set_topic_ids({name: topic.topic_id for name, topic in self._image.topics.items()})
        self._logs.settle(self._home)
        log_config = cache(self._log_config)
        for topic in self._image.topics.values():
            for partition in topic.partitions:
                self._create(topic.topic_id, partition, log_config)
            self._update_topic(topic.name)

    def publish(self, records: Sequence[Message]) -> None:
        """Apply a change."""
        changed: dict[tuple[int, str], None] = {}
        log_config = cache(self._log_config)
        for record in records:
            # Partitions of a snapshot are not new; they may have been moved meanwhile.
            if isinstance(record, PartitionRecord | PartitionChangeRecord) and record.replicas is not None:
                self._place(record.topic_id, record.partition_id, log_config)
            elif isinstance(record, RemoveTopicRecord):
                self._delete([log for log in self._logs.logs() if log.topic_id == record.topic_id])
            elif isinstance(record, ConfigRecord):
                changed[record.resource_type, record.resource_name] = None
        for kind, name in changed:
            if kind == TOPIC_RESOURCE:
                self._update_topic(name)
            elif kind == BROKER_RESOURCE:
                self._update_broker()
                for topic in self._image.topics:
                    self._update_topic(topic)

    def _home(self, log: PartitionLog) -> UUID | None:
        """Return the directory of a log's partition in the metadata, None if this broker has no such replica."""
        topic = self._image.topics_by_id.get(log.topic_id)
        state = None if topic is None else topic.partitions.get(log.partition)
        if state is None or self._config.node_id not in state.replicas:
            return None
        return directory_on(state, self._config.node_id)

    def _place(self, topic_id: UUID, partition: int, log_config: Callable[[str], LogConfig]) -> None:
        """Create the log of a partition that is on this broker now, and delete that of one that is not any longer."""
        topic = self._image.topics_by_id.get(topic_id)
        state = None if topic is None else topic.partitions.get(partition)
        if topic is None or state is None:
            return
        if self._config.node_id in state.replicas:
            self._create(topic_id, partition, log_config)
            return
        log = self._logs.get(topic.name, partition)
        if log is not None and log.topic_id == topic_id:
            logger.info("%s-%d is on other brokers now; deleting its log", topic.name, partition)
            self._delete([log])

    def _create(self, topic_id: UUID, partition: int, log_config: Callable[[str], LogConfig]) -> None:
        topic = self._image.topics_by_id.get(topic_id)
        if topic is None or self._config.node_id not in topic.partitions[partition].replicas:
            return
        if self._logs.get(topic.name, partition) is not None:
            return
        home = directory_on(topic.partitions[partition], self._config.node_id)
        directory = next((each for each in self._logs.online if each.directory_id == home), None)
        if directory is None and home != UNASSIGNED and len(self._logs.online) < len(self._logs.directories):
            logger.warning("%s-%d may be in a directory that is offline; leaving it there", topic.name, partition)
            return
        try:
            self._logs.create(topic.name, partition, topic_id, log_config(topic.name), directory=directory)
        except KafkaStorageError as error:
            logger.error("no log for %s-%d: %s", topic.name, partition, error)

    def _delete(self, logs: Sequence[PartitionLog]) -> None:
        if not logs:
            return
        try:
            self._logs.delete(*((log.topic, log.partition) for log in logs))
        except KafkaStorageError as error:
            logger.error("could not delete the logs of %s: %s", logs[0].topic, error)
        for log in logs:
            self._on_deleted(log)

    def _log_config(self, topic: str) -> LogConfig:
        return self._config.log_config(self._image.config(TOPIC_RESOURCE, topic))

    def _update_topic(self, name: str) -> None:
        topic = self._image.topics.get(name)
        if topic is None:
            return
        config = self._log_config(name)
        for partition in topic.partitions:
            log = self._logs.get(name, partition)
            if log is not None and log.config != config:
                log.update_config(config)
        self._note("the topic setting", topic_settings(), self._image.config(TOPIC_RESOURCE, name))

    def _update_broker(self) -> None:
        own = self._image.config(BROKER_RESOURCE, str(self._config.node_id))
        every = self._image.config(BROKER_RESOURCE, "")
        self._config.set_dynamic(own, every)
        self._note("the broker setting", broker_settings(), {**every, **own})
        cordoned = self._config.cordoned_directories
        self._logs.cordoned = frozenset(each for each in self._logs.directories if str(each.path) in cordoned)

    def _note(self, kind: str, known: Mapping[str, Setting], values: Mapping[str, str]) -> None:
        """Log each setting without an effect once, unless its value is the default."""
        for name, value in values.items():
            found = known.get(name)
            if found is None or found.acted_on or value == found.default:
                continue
            if (kind, name) not in self._noted:
                self._noted.add((kind, name))
                logger.warning("%s %s is stored, but this broker does not act on it yet", kind, name)
