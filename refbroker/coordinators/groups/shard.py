"""The groups in one partition of `__consumer_offsets`: what its records say, and what may be asked of it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

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
from refbroker.coordinators.groups.administration import delete_group
from refbroker.coordinators.groups.classic import ClassicProtocol
from refbroker.coordinators.groups.expiry import expired_records, records_of_deleted_topics
from refbroker.coordinators.groups.group import ClassicGroup
from refbroker.coordinators.groups.offset_requests import OffsetRequests
from refbroker.coordinators.groups.offsets import CommittedOffsets
from refbroker.coordinators.groups.rebalances import GroupSettings
from refbroker.coordinators.runtime import CoordinatorResult, ShardContext

if TYPE_CHECKING:
    from refbroker.broker import Broker


MS_PER_MINUTE = 60_000


class GroupShard:
    """The groups in one partition; a state machine of the runtime.

    Parameters:
        context: time and timers.
        broker: whose.

    Attributes:
        partition: of `__consumer_offsets`.
        groups: by id.
        classic: carries out the requests of classic groups.
        offsets: what the groups have committed.
    """

    def __init__(self, context: ShardContext[GroupShard], broker: Broker) -> None:
        self.partition = context.partition
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets = CommittedOffsets()
        self._context = context
        self._broker = broker
        config, rng = broker.config, broker.rng
        self.classic = ClassicProtocol(
            self.groups,
            context,
            GroupSettings(
                initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
                max_size=config.integer("group.max.size"),
            ),
            lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        )
        self._offset_requests = OffsetRequests(
            self.groups,
            self.offsets,
            config.integer("offset.metadata.max.bytes"),
            context.now,
            self.classic.keep_alive,
        )
        self.fetch_offsets = self._offset_requests.fetch

    # Offsets

    def commit_offsets(self, request: OffsetCommitRequest, version: int) -> CoordinatorResult[OffsetCommitResponse]:
        """Store offsets of a group; see `OffsetRequests.commit`."""
        result = self._offset_requests.commit(request, version)
        self._broker.metrics.groups.offsets_committed += len(result.records)
        return result

    def delete_offsets(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Delete offsets of a group; see `OffsetRequests.delete`."""
        result = self._offset_requests.delete(request)
        self._broker.metrics.groups.offsets_deleted += len(result.records)
        return result

    def delete_group(self, group_id: str) -> CoordinatorResult[None]:
        """Delete a group; see `administration.delete_group`."""
        return delete_group(self.groups, self.offsets, group_id)

    def expire(self) -> CoordinatorResult[None]:
        """Let go of offsets and groups that were kept long enough, and look again after a while."""
        config = self._broker.config
        self._context.schedule("expiry", config.integer("offsets.retention.check.interval.ms"), self.expire)
        retention_ms = config.integer("offsets.retention.minutes") * MS_PER_MINUTE
        records = expired_records(self.groups.values(), self.offsets, self._context.now(), retention_ms)
        self._broker.metrics.groups.offsets_expired += sum(isinstance(one.key, OffsetCommitKey) for one in records)
        return CoordinatorResult(records, None, atomic=False)

    def forget_deleted_topics(self) -> CoordinatorResult[None]:
        """Let go of the offsets of topics that are gone."""
        topics = self._broker.metadata.image.topics

        def topic_id(name: str) -> uuid.UUID | None:
            topic = topics.get(name)
            return None if topic is None else topic.topic_id

        return CoordinatorResult(records_of_deleted_topics(self.offsets, topic_id), None, atomic=False)

    # What the runtime asks for

    def replay(self, key: Message, value: Message | None, producer_id: int, offset: int) -> None:
        """Take over what a record says."""
        if isinstance(key, GroupMetadataKey):
            if value is None:
                self.groups.pop(key.group, None)
            else:
                assert isinstance(value, GroupMetadataValue)
                self.groups[key.group] = ClassicGroup.from_record(key.group, value, self._context.now)
        elif isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue)
            if value is not None and key.group not in self.groups:
                # A group that has never had members is there for its offsets, and has no record of its own.
                self.groups[key.group] = ClassicGroup(key.group, self._context.now)
            self.offsets.replay(key, value, producer_id, offset)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Take over, or forget, the offsets of a transaction."""
        self.offsets.end_transaction(producer_id, committed=committed)

    def loaded(self) -> None:
        """Begin: the groups' members have a session's time to be heard of."""
        for group in self.groups.values():
            self.classic.loaded(group)
        self._context.schedule(
            "expiry", self._broker.config.integer("offsets.retention.check.interval.ms"), self.expire
        )
        # Topics may have been deleted while nobody coordinated this partition. One that a commit has named is known
        # here by now: the leader that took the commit knew it, and this broker has learned later that it leads.
        self._context.schedule("deleted topics", 0, self.forget_deleted_topics)

    def unloaded(self) -> None:
        """End: whoever waits has to find the new coordinator."""
        for group in self.groups.values():
            self.classic.unloaded(group)
