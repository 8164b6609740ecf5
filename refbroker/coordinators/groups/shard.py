"""The groups of one partition of `__consumer_offsets`: the state from its records, and the operations on it."""

from __future__ import annotations

import random
import uuid

from kclient.protocol import Message
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kclient.protocol.messages.records.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from refbroker.config import BrokerConfig
from refbroker.coordinators.groups.administration import delete_group
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.machine import ClassicGroups
from refbroker.coordinators.groups.classic.rebalancing import GroupSettings
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.patterns import Patterns
from refbroker.coordinators.groups.consumer.records import replay
from refbroker.coordinators.groups.consumer.sessions import Sessions
from refbroker.coordinators.groups.consumer.settings import ConsumerSettings, settings_of
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.groups.consumer.update import Environment
from refbroker.coordinators.groups.expiry import expired_records, records_of_deleted_topics
from refbroker.coordinators.groups.offset_requests import OffsetRequests
from refbroker.coordinators.groups.offsets import CommittedOffsets
from refbroker.coordinators.groups.protocols import Protocols
from refbroker.coordinators.runtime import CoordinatorResult, ShardContext
from refbroker.log.checkpoints import encode_uuid, random_uuid
from refbroker.metadata.image import ClusterImage
from refbroker.metrics.counters import GroupStats

MS_PER_MINUTE = 60_000


class GroupShard:
    """The groups of one partition; a state machine of the coordinator runtime.

    Parameters:
        context: time and timers.
        config: the broker's settings.
        image: the state of the cluster.
        topics: the topics of the cluster, for groups.
        rng: random numbers for member ids.
        stats: the counters for metrics.

    Attributes:
        partition: the number of the partition of `__consumer_offsets`.
        groups: the classic groups, by id.
        consumers: the consumer groups, by id; none has the id of a classic one.
        protocols: handles the requests of their members.
        offsets: the committed offsets of the groups.
    """

    def __init__(
        self,
        context: ShardContext[GroupShard],
        config: BrokerConfig,
        image: ClusterImage,
        topics: GroupTopics,
        rng: random.Random,
        stats: GroupStats,
    ) -> None:
        self.partition = context.partition
        self.groups: dict[str, ClassicGroup] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self.offsets = CommittedOffsets()
        self._context = context
        self._config, self._image, self._stats = config, image, stats

        def new_uuid() -> str:
            return str(uuid.UUID(int=rng.getrandbits(128), version=4))

        self._classic = ClassicGroups(
            self.groups,
            context,
            GroupSettings(
                initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
                max_size=config.integer("group.max.size"),
            ),
            new_uuid,
            stats,
        )

        def settings(group_id: str) -> ConsumerSettings:
            return settings_of(config, image, group_id)

        self._sessions = Sessions(self.consumers, self._classic, context, topics, settings)
        patterns = Patterns(self.consumers.get, context, topics, stats)
        self.protocols = Protocols(
            self.groups,
            self._classic,
            Environment(
                self.consumers,
                context,
                topics,
                settings,
                self._sessions,
                patterns,
                lambda: encode_uuid(random_uuid(rng)),
                stats,
            ),
        )
        self._offset_requests = OffsetRequests(
            self.groups,
            self.consumers,
            self.offsets,
            config.integer("offset.metadata.max.bytes"),
            context.now,
            self._classic.keep_alive,
        )
        self.fetch_offsets = self._offset_requests.fetch

    def every_group(self) -> list[ClassicGroup | ConsumerGroup]:
        """Return the groups of both kinds."""
        return [*self.groups.values(), *self.consumers.values()]

    # Offsets

    def commit_offsets(self, request: OffsetCommitRequest, version: int) -> CoordinatorResult[OffsetCommitResponse]:
        """Store offsets of a group; see `OffsetRequests.commit`."""
        result = self._offset_requests.commit(request, version)
        self._stats.offsets_committed += len(result.records)
        return result

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest
    ) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """Store offsets of a group in a transaction; see `OffsetRequests.commit_in_transaction`."""
        topics = self._image.topics
        result = self._offset_requests.commit_in_transaction(request, lambda name: topics[name].topic_id)
        self._stats.offsets_committed += len(result.records)
        return result

    def delete_offsets(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Delete offsets of a group; see `OffsetRequests.delete`."""
        result = self._offset_requests.delete(request)
        self._stats.offsets_deleted += len(result.records)
        return result

    def delete_group(self, group_id: str) -> CoordinatorResult[None]:
        """Delete a group; see `administration.delete_group`."""
        return delete_group(self.groups, self.consumers, self.offsets, group_id)

    def expire(self) -> CoordinatorResult[None]:
        """Remove expired offsets and groups, and schedule the next check."""
        config = self._config
        self._context.schedule("expiry", config.integer("offsets.retention.check.interval.ms"), self.expire)
        retention_ms = config.integer("offsets.retention.minutes") * MS_PER_MINUTE
        records = expired_records(self.every_group(), self.offsets, self._context.now(), retention_ms)
        self._stats.offsets_expired += sum(isinstance(one.key, OffsetCommitKey) for one in records)
        return CoordinatorResult(records, None, atomic=False)

    def forget_deleted_topics(self) -> CoordinatorResult[None]:
        """Remove the offsets of deleted topics."""
        topics = self._image.topics

        def topic_id(name: str) -> uuid.UUID | None:
            topic = topics.get(name)
            return None if topic is None else topic.topic_id

        return CoordinatorResult(records_of_deleted_topics(self.offsets, topic_id), None, atomic=False)

    # Called by the runtime

    def replay(self, key: Message, value: Message | None, producer_id: int, offset: int) -> None:
        """Apply a record."""
        if isinstance(key, GroupMetadataKey):
            if value is None:
                self.groups.pop(key.group, None)
            else:
                assert isinstance(value, GroupMetadataValue)
                self.groups[key.group] = ClassicGroup.from_record(key.group, value, self._context.now)
        elif isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue)
            if value is not None and key.group not in self.groups and key.group not in self.consumers:
                # A group that has never had members exists for its offsets, and has no record of its own.
                self.groups[key.group] = ClassicGroup(key.group, self._context.now)
            self.offsets.replay(key, value, producer_id, offset)
        else:
            begun = replay(self.consumers, key, value)
            if begun is not None:
                # It was created for its offsets, whose records came first.
                self.groups.pop(begun.group_id, None)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Add or drop the offsets of a transaction."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def loaded(self) -> None:
        """Start the timers: each member has a session timeout to send a heartbeat."""
        for group in self.groups.values():
            self._classic.on_loaded(group)
        for consumers in self.consumers.values():
            self._sessions.loaded(consumers)
        self._context.schedule("expiry", self._config.integer("offsets.retention.check.interval.ms"), self.expire)
        # Topics may have been deleted while this partition had no coordinator. A topic in a commit is known here,
        # because the leader that accepted the commit knew it, and this broker learned later that it is the leader.
        self._context.schedule("deleted topics", 0, self.forget_deleted_topics)

    def unloaded(self) -> None:
        """Stop: waiting requests get an error, so that clients find the new coordinator."""
        for group in self.groups.values():
            self._classic.on_unloaded(group)
