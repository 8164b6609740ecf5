"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete on the groups of a partition, as in Kafka's coordinator.

Sans I/O: the time is a parameter, and changes are returned as records. Elsewhere: permissions for topics, their
existence and their ids, which the handlers check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from kclient.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    GroupNotEmptyError,
    GroupSubscribedToTopicError,
    IllegalGenerationError,
    OffsetMetadataTooLargeError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
    UnstableOffsetCommitError,
)
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.states import GroupState
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.member import ConsumerMember
from refbroker.coordinators.groups.offsets import (
    NO_TIMESTAMP,
    CommittedOffset,
    CommittedOffsets,
    GroupPartition,
    offset_tombstone,
)
from refbroker.coordinators.records import CoordinatorRecord
from refbroker.coordinators.runtime import CoordinatorResult

DEFAULT_RETENTION_TIME = -1
NO_OFFSET = -1
FIRST_WITH_GROUP_ID_NOT_FOUND = 9
# The first version of OffsetCommit with member epochs, which members of consumer groups must use; TxnOffsetCommit
# always has them.
_ANY_VERSION = 2**15 - 1

FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup
FetchedTopic = OffsetFetchResponse.OffsetFetchResponseTopics
FetchedPartition = OffsetFetchResponse.OffsetFetchResponsePartitions


class OffsetRequests:
    """Carries out requests about the offsets of the groups of a partition.

    Parameters:
        groups: the classic groups of the partition, by id.
        consumers: its consumer groups, by id.
        offsets: their committed offsets.
        metadata_max_size: the maximum length of the metadata of an offset, in characters as Java counts them, although
            the name of the setting says bytes.
        now: the time, milliseconds since the epoch.
        keep_alive: called for a member that has sent a request.
    """

    def __init__(
        self,
        groups: Mapping[str, ClassicGroup],
        consumers: Mapping[str, ConsumerGroup],
        offsets: CommittedOffsets,
        metadata_max_size: int,
        now: Callable[[], int],
        keep_alive: Callable[[ClassicGroup, str], None],
    ) -> None:
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._metadata_max_size = metadata_max_size
        self._now = now
        self._keep_alive = keep_alive

    # OffsetCommit

    def commit(self, request: OffsetCommitRequest, version: int) -> CoordinatorResult[OffsetCommitResponse]:
        """Store offsets, whose topics have both name and id.

        Raises:
            GroupIdNotFoundError, UnknownMemberIdError, FencedInstanceIdError, IllegalGenerationError,
            RebalanceInProgressError, CoordinatorNotAvailableError, StaleMemberEpochError, UnsupportedVersionError: the
                sender may not commit now.
        """
        behind = self._check_sender(request, version)
        now, records, topics = self._now(), [], []
        expiry = NO_TIMESTAMP
        if request.retention_time_ms != DEFAULT_RETENTION_TIME:
            expiry = now + request.retention_time_ms
        for topic in request.topics:
            answer = OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
            topics.append(answer)
            for wanted in topic.partitions:
                one = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=wanted.partition_index)
                answer.partitions.append(one)
                metadata = wanted.committed_metadata or ""
                if self._is_too_large(metadata):
                    one.error_code = OffsetMetadataTooLargeError.code
                    continue
                if behind is not None:
                    epoch = request.generation_id_or_member_epoch
                    behind.check_commit(epoch, topic.topic_id, topic.name, wanted.partition_index)
                committed = CommittedOffset(
                    wanted.committed_offset, wanted.committed_leader_epoch, metadata, now, expiry, topic.topic_id
                )
                records.append(committed.record(GroupPartition(request.group_id, topic.name, wanted.partition_index)))
        return CoordinatorResult(records, OffsetCommitResponse(topics=topics))

    def _check_sender(self, request: OffsetCommitRequest, version: int) -> ConsumerMember | None:
        """Check that the sender may commit; return its member if each partition must be checked too."""
        consumers = self._consumers.get(request.group_id)
        if consumers is not None:
            return consumers.check_commit(request.member_id, request.generation_id_or_member_epoch, version)
        group = self._groups.get(request.group_id)
        if group is None:
            if request.generation_id_or_member_epoch < 0:
                # An administrator, or a consumer with `assign()`: the group is created for its offsets.
                return None
            if version >= FIRST_WITH_GROUP_ID_NOT_FOUND:
                raise GroupIdNotFoundError(f"Group {request.group_id} not found.")
            raise IllegalGenerationError
        member_id = request.member_id
        check_commit(group, member_id, request.group_instance_id, request.generation_id_or_member_epoch)
        if group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            self._keep_alive(group, member_id)
        return None

    def _is_too_large(self, metadata: str) -> bool:
        return java_length(metadata) > self._metadata_max_size

    # TxnOffsetCommit

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, topic_id: Callable[[str], UUID]
    ) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """Store offsets in a transaction, which makes them valid or drops them when it ends.

        A producer need not send the member for which it commits; if it does, the member must belong to the current
        generation (KIP-447). A rebalance of the group makes no difference.

        Parameters:
            topic_id: returns the id of an existing topic by name.

        Raises:
            UnknownMemberIdError, FencedInstanceIdError, IllegalGenerationError, CoordinatorNotAvailableError: the
                producer may not commit now.
        """
        behind = self._check_transactional_sender(request)
        now, records, topics = self._now(), [], []
        for topic in request.topics:
            answer = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(name=topic.name)
            topics.append(answer)
            for wanted in topic.partitions:
                number = wanted.partition_index
                one = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=number)
                answer.partitions.append(one)
                metadata = wanted.committed_metadata or ""
                if self._is_too_large(metadata):
                    one.error_code = OffsetMetadataTooLargeError.code
                    continue
                if behind is not None:
                    try:
                        behind.check_commit(request.generation_id, topic_id(topic.name), topic.name, number)
                    except StaleMemberEpochError as error:
                        raise IllegalGenerationError(error.message) from error
                committed = CommittedOffset(wanted.committed_offset, wanted.committed_leader_epoch, metadata, now)
                records.append(committed.record(GroupPartition(request.group_id, topic.name, number)))
        return CoordinatorResult(records, TxnOffsetCommitResponse(topics=topics))

    def _check_transactional_sender(self, request: TxnOffsetCommitRequest) -> ConsumerMember | None:
        """Check that the producer may commit; return its member if each partition must be checked too."""
        generation, member_id, instance_id = request.generation_id, request.member_id, request.group_instance_id
        is_anonymous = generation < 0 and not member_id and instance_id is None
        consumers = self._consumers.get(request.group_id)
        if consumers is not None:
            try:
                return None if is_anonymous else consumers.check_commit(member_id, generation, _ANY_VERSION)
            except StaleMemberEpochError as error:
                raise IllegalGenerationError(error.message) from error
        group = self._groups.get(request.group_id)
        if group is None:
            if generation >= 0:
                raise IllegalGenerationError
        elif group.state is GroupState.DEAD:
            raise CoordinatorNotAvailableError
        elif not is_anonymous and not (generation < 0 and group.is_empty):
            group.check_member(member_id, instance_id)
            if generation != group.generation:
                raise IllegalGenerationError
        return None

    # OffsetFetch

    def fetch(
        self,
        group_id: str,
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None,
        *,
        require_stable: bool,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> FetchedGroup:
        """Return the committed offsets of a group; none for a group that does not exist.

        Parameters:
            topics: the requested topics, by name, and by id if the client sent it; None for all.
            require_stable: whether offsets that an open transaction may change are errors.
            member_id, member_epoch: the sender; None and -1 if the client has not sent them; checked only in consumer
                groups.

        Raises:
            UnknownMemberIdError, StaleMemberEpochError, IllegalGenerationError: it is not a member, or has another
                epoch.
        """
        consumers = self._consumers.get(group_id)
        if consumers is not None:
            consumers.check_fetch(member_id, member_epoch)
        group = consumers or self._groups.get(group_id)
        known = {} if group is None or group.state is GroupState.DEAD else self._offsets.of_group(group_id)
        answer = FetchedGroup(group_id=group_id)
        if topics is None:
            for name, partitions in known.items():
                answer.topics.append(FetchedTopic(name=name))
                for number, committed in partitions.items():
                    place = GroupPartition(group_id, name, number)
                    answer.topics[-1].partitions.append(self._fetched(place, committed, require_stable))
            return answer
        for topic in topics:
            answer.topics.append(FetchedTopic(name=topic.name, topic_id=topic.topic_id))
            for number in topic.partition_indexes:
                found = known.get(topic.name, {}).get(number)
                if found is not None and found.topic_id.int and topic.topic_id.int:
                    # A topic that was created again has no committed offsets.
                    found = found if found.topic_id == topic.topic_id else None
                place = GroupPartition(group_id, topic.name, number)
                answer.topics[-1].partitions.append(self._fetched(place, found, require_stable))
        return answer

    def _fetched(
        self, place: GroupPartition, committed: CommittedOffset | None, require_stable: bool
    ) -> FetchedPartition:
        number = place.partition
        if require_stable and self._offsets.is_unstable(place):
            code = UnstableOffsetCommitError.code
            return FetchedPartition(partition_index=number, committed_offset=NO_OFFSET, error_code=code)
        if committed is None:
            return FetchedPartition(partition_index=number, committed_offset=NO_OFFSET)
        return FetchedPartition(
            partition_index=number,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )

    # OffsetDelete

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Delete offsets of topics to which no member of the group subscribes.

        Raises:
            GroupIdNotFoundError: the group does not exist.
            GroupNotEmptyError: it has members that are not consumers.
        """
        group = self._consumers.get(request.group_id) or self._groups.get(request.group_id)
        if group is None or group.state is GroupState.DEAD:
            raise GroupIdNotFoundError(f"Group {request.group_id} not found.")
        if isinstance(group, ClassicGroup) and not group.is_empty and not group.uses_consumer_protocol:
            raise GroupNotEmptyError
        records: list[CoordinatorRecord] = []
        topics = []
        for topic in request.topics:
            subscribed = group.is_subscribed_to(topic.name)
            answer = OffsetDeleteResponse.OffsetDeleteResponseTopic(name=topic.name)
            topics.append(answer)
            for wanted in topic.partitions:
                number = wanted.partition_index
                code = GroupSubscribedToTopicError.code if subscribed else 0
                answer.partitions.append(
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(partition_index=number, error_code=code)
                )
                place = GroupPartition(request.group_id, topic.name, number)
                if not subscribed and (self._offsets.get(place) is not None or self._offsets.is_unstable(place)):
                    records.append(offset_tombstone(place))
        return CoordinatorResult(records, OffsetDeleteResponse(topics=topics))


def check_commit(group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> None:
    """Check that the sender may commit offsets of a classic group.

    Raises:
        CoordinatorNotAvailableError: the group was deleted.
        UnknownMemberIdError, FencedInstanceIdError: the sender is not a member, and the group is not empty.
        IllegalGenerationError: the sender is a member of another generation.
        RebalanceInProgressError: the members of the generation have no assignments yet.
    """
    if group.state is GroupState.DEAD:
        raise CoordinatorNotAvailableError
    if generation < 0 and group.is_empty:
        return
    if generation < 0 and not member_id and instance_id is None:
        raise UnknownMemberIdError
    group.check_member(member_id, instance_id)
    if generation != group.generation:
        raise IllegalGenerationError
    if group.state is GroupState.COMPLETING_REBALANCE:
        raise RebalanceInProgressError


def java_length(text: str) -> int:
    """Return the length of a text as Java counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
