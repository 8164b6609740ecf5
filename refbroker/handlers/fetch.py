"""Fetch (1), versions 4 to 18: reads record batches, and waits for them.

Partitions are read in the order of the request, or of the fetch session, until the response has `max_bytes` (at most
`fetch.max.bytes`). The first batch of the first partition with records is returned whatever its size, so that a reader
always progresses. With less than `min_bytes`, the response waits for up to `max_wait_ms`, unless there is an error.
Unknown partitions do not complete a waiting fetch; their error is part of the response. Consumers read up to the high
watermark, with READ_COMMITTED up to the last stable offset, and so do tools that compare replicas (replica id -2).
Followers read up to the log end, with their broker id and epoch. A follower that does not belong to the partition is
UNKNOWN_LEADER_EPOCH, without a leader epoch in the request NOT_LEADER_OR_FOLLOWER; so is an older epoch than the
broker's registration. Incremental sessions (KIP-227), leader epochs (KIP-320), truncation by `last_fetched_epoch`,
topic ids from version 13 on, and READ_COMMITTED are implemented. A partition whose disk failed is KAFKA_STORAGE_ERROR,
before version 6 NOT_LEADER_OR_FOLLOWER, after which clients refresh their metadata.

Permissions: READ on the topic; CLUSTER_ACTION for followers, without which all partitions are
TOPIC_AUTHORIZATION_FAILED.

Not implemented: following the progress of followers, reading from followers, tiered storage.
"""

from __future__ import annotations

import asyncio
from functools import cache
from uuid import UUID

from kclient.errors import (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    InvalidFetchSessionEpochError,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    TopicAuthorizationError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from refbroker.fetch.sessions import FIRST_EPOCH, LAST_EPOCH, NO_SESSION, FetchedPartition, FetchSession, Key
from refbroker.handlers.answers import LeaderHints
from refbroker.handlers.context import Context, ErrorFree, Reply
from refbroker.handlers.services import FetchServices
from refbroker.log import Isolation, PartitionLog
from refbroker.metadata.partitions import LocalPartition
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CLUSTER_ACTION, READ_TOPIC

FIRST_WITH_STORAGE_ERROR = 6
FIRST_WITH_SESSIONS = 7
FIRST_WITH_TOPIC_IDS = 13
FIRST_WITH_TRUNCATION = 12
FIRST_WITH_LEADER_HINTS = 16
UNKNOWN_OFFSET = -1
READ_COMMITTED = 1
FIRST_WITH_REPLICA_STATE = 15
NO_BROKER_EPOCH = -1

# Errors that a healthy broker returns too, which are not counted as failures.
_EXPECTED = (
    FencedLeaderEpochError,
    InconsistentTopicIdError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)

PartitionData = FetchResponse.PartitionData


def handle(context: Context[FetchServices], request: FetchRequest) -> Reply | asyncio.Future[Reply]:
    """Carry out a Fetch request, immediately or when there is enough data."""
    try:
        fetch = _Fetch(context, request, *_wanted(context, request))
    except KafkaError as error:
        return FetchResponse(error_code=code_of(error))
    fetch.read()
    if fetch.missing <= 0 or request.max_wait_ms <= 0:
        return fetch.answer()
    return context.broker.delayed_fetches.wait(
        fetch.logs,
        fetch.missing,
        request.max_wait_ms,
        fetch.isolation,
        fetch.read_again,
        fetch.measure,
    )


def _wanted(
    context: Context[FetchServices], request: FetchRequest
) -> tuple[dict[Key, FetchedPartition], FetchSession | None, bool]:
    """Return the partitions to read, their session, and whether another request is using the session.

    Raises:
        FetchSessionIdNotFoundError, FetchSessionTopicIdError, InvalidFetchSessionEpochError: see `FetchSessions`.
    """
    by_id = context.version >= FIRST_WITH_TOPIC_IDS
    named: dict[Key, FetchedPartition] = {}
    for topic in request.topics:
        asked: str | UUID = topic.topic_id if by_id else topic.topic
        name = context.broker.partitions.topic_name(topic.topic_id) if by_id else topic.topic
        for one in topic.partitions:
            named[asked, one.partition] = FetchedPartition(
                asked,
                name,
                one.partition,
                one.fetch_offset,
                one.partition_max_bytes,
                one.current_leader_epoch,
                one.last_fetched_epoch,
            )
    sessions, now = context.broker.sessions, context.broker.clock()
    if context.version < FIRST_WITH_SESSIONS or request.session_epoch in (FIRST_EPOCH, LAST_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        if context.version < FIRST_WITH_SESSIONS or request.session_epoch == LAST_EPOCH:
            return named, None, False
        return named, sessions.create(named, by_id, now), False
    session = sessions.resume(request.session_id, request.session_epoch, by_id, now)
    for key, newer in named.items():
        known = session.partitions.get(key)
        if known is None:
            session.partitions[key] = newer
        else:
            known.update(newer)
    for forgotten in request.forgotten_topics_data:
        for partition in forgotten.partitions:
            session.partitions.pop((forgotten.topic_id if by_id else forgotten.topic, partition), None)
    if not session.partitions:
        sessions.remove(session.session_id)
        return session.partitions, None, False
    return session.partitions, session, True


class _Fetch:
    """One Fetch request in progress.

    Attributes:
        size: bytes of records read.
        logs: the logs that were read.
        isolation: up to where they are read.
        cannot_wait: whether to respond immediately: after an error or a truncation, or if there is nothing to read.
    """

    def __init__(
        self,
        context: Context[FetchServices],
        request: FetchRequest,
        wanted: dict[Key, FetchedPartition],
        session: FetchSession | None,
        incremental: bool,
    ) -> None:
        self._context = context
        self._session = session
        self._incremental = incremental
        self._epoch = NO_SESSION if session is None else session.epoch
        has_state = context.version >= FIRST_WITH_REPLICA_STATE
        self._replica_id = request.replica_state.replica_id if has_state else request.replica_id
        self._replica_epoch = request.replica_state.replica_epoch if has_state else NO_BROKER_EPOCH
        self._is_follower = self._replica_id >= 0
        if self._is_follower:
            context.quota.exempt()
        most = float("inf") if self._is_follower else context.quota.fetch_limit()
        self._max_bytes = int(min(request.max_bytes, context.broker.config.fetch_max_bytes, most))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        committed = request.isolation_level == READ_COMMITTED
        self.isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
        if self._is_follower:
            self.isolation = Isolation.LOG_END
        self._hints = self._new_hints()
        self._found: list[tuple[Key, FetchedPartition, PartitionData]] = []
        self._given: list[tuple[str, int]] = []
        self._has_failed = False
        self.size = 0
        self.logs: list[PartitionLog] = []
        self._refused: list[tuple[Key, FetchedPartition, PartitionData]] = []
        self._readable: list[tuple[Key, FetchedPartition]] = []
        self._set_missing_apart(wanted)
        self.cannot_wait = not self._readable

    def _set_missing_apart(self, wanted: dict[Key, FetchedPartition]) -> None:
        """Separate unknown partitions from those to read; unknown topics come first."""
        image, partitions = self._context.broker.image, self._context.broker.partitions
        refusal = cache(self._refusal)
        missing: list[tuple[Key, FetchedPartition, PartitionData]] = []
        for key, one in wanted.items():
            if one.name is None:
                one.name = partitions.topic_name(one.topic)
            refused = refusal(one.name)
            if refused is not None:
                missing.append((key, one, _refusal(one, code_of(refused))))
            elif one.name is None:
                self._refused.append((key, one, _refusal(one, UnknownTopicIdError.code)))
            elif image.partition(one.name, one.partition) is None:
                missing.append((key, one, _refusal(one, UnknownTopicOrPartitionError.code)))
            else:
                self._readable.append((key, one))
        self._refused += missing

    def _refusal(self, topic: str | None) -> KafkaError | None:
        """Return why the client may not read a topic; followers need a permission on the cluster instead.

        Parameters:
            topic: its name, None for an unknown id.
        """
        access = self._context.access
        if self._is_follower:
            return None if access.allows(CLUSTER_ACTION) else TopicAuthorizationError(topic=topic)
        return None if topic is None else access.refusal(READ_TOPIC, topic)

    def _new_hints(self) -> LeaderHints:
        wanted = self._context.version >= FIRST_WITH_LEADER_HINTS
        return LeaderHints(
            self._context.broker.image, self._context.connection.listener, FetchResponse.NodeEndpoint, wanted=wanted
        )

    @property
    def missing(self) -> int:
        """The bytes to wait for before the response; zero if it must not wait."""
        return 0 if self.cannot_wait else self._min_bytes - self.size

    def measure(self) -> int:
        """Read the partitions again, and return the missing bytes."""
        self.read()
        return self.missing

    def read_again(self) -> Reply:
        """Read the partitions again, and return the response."""
        self.read()
        return self.answer()

    def read(self) -> None:
        """Read all partitions that exist."""
        self.size = 0
        self._found = []
        self._given = []
        self._has_failed = False
        self.logs = []
        self._hints = self._new_hints()
        for key, wanted in self._readable:
            try:
                data = self._read(wanted)
            except KafkaError as error:
                data = self._failed(wanted, error)
                self.cannot_wait = True
            self._found.append((key, wanted, data))

    def _read(self, wanted: FetchedPartition) -> PartitionData:
        assert wanted.name is not None
        found = self._context.broker.partitions.find(
            wanted.name,
            wanted.partition,
            wanted.current_leader_epoch,
            topic_id=None if isinstance(wanted.topic, str) else wanted.topic,
        )
        if self._is_follower:
            self._check_replica(found, wanted)
        log = found.log
        self.logs.append(log)
        if wanted.last_fetched_epoch >= 0 and self._context.version >= FIRST_WITH_TRUNCATION:
            diverging = _diverging_epoch(found, wanted)
            if diverging is not None:
                self.cannot_wait = True
                return PartitionData(
                    partition_index=wanted.partition,
                    high_watermark=log.high_watermark,
                    last_stable_offset=log.last_stable_offset,
                    log_start_offset=log.log_start_offset,
                    diverging_epoch=diverging,
                    aborted_transactions=None,
                    records=b"",
                )
        part = log.read(
            wanted.fetch_offset,
            max(min(wanted.max_bytes, self._max_bytes - self.size), 0),
            isolation=self.isolation,
            min_one_batch=self.size == 0,
        )
        size = len(part.records)
        if size:
            self.size += size
            self._given.append((found.topic, size))
        return PartitionData(
            partition_index=wanted.partition,
            high_watermark=part.high_watermark,
            last_stable_offset=part.last_stable_offset,
            log_start_offset=part.log_start_offset,
            aborted_transactions=None
            if part.aborted is None
            else [
                FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
                for producer_id, first_offset in part.aborted
            ],
            records=part.records if size else b"",
        )

    def _check_replica(self, found: LocalPartition, wanted: FetchedPartition) -> None:
        """Check that the follower has the partition, and that it has not been started again since.

        Raises:
            UnknownLeaderEpochError, NotLeaderOrFollowerError: it has not, or its broker epoch is old.
        """
        replica_id = self._replica_id
        if replica_id not in found.state.replicas:
            kind = UnknownLeaderEpochError if wanted.current_leader_epoch >= 0 else NotLeaderOrFollowerError
            raise kind(
                f"broker {replica_id} is not one of the replicas {found.state.replicas} in leader epoch "
                f"{found.state.leader_epoch}",
                topic=found.topic,
                partition=wanted.partition,
            )
        registration = self._context.broker.image.brokers.get(replica_id)
        if registration is not None and NO_BROKER_EPOCH < self._replica_epoch < registration.broker_epoch:
            raise NotLeaderOrFollowerError(
                f"broker {replica_id} has registered with epoch {registration.broker_epoch} since epoch "
                f"{self._replica_epoch}",
                topic=found.topic,
                partition=wanted.partition,
            )

    def _failed(self, wanted: FetchedPartition, error: KafkaError) -> PartitionData:
        broker = self._context.broker
        self._has_failed = True
        topic = broker.partitions.topic_name(wanted.topic)
        if topic is not None and not isinstance(error, _EXPECTED):
            broker.metrics.topics.of(topic).failed_fetch += 1
        unknown_to_client = isinstance(error, KafkaStorageError) and self._context.version < FIRST_WITH_STORAGE_ERROR
        data = _refusal(wanted, NotLeaderOrFollowerError.code if unknown_to_client else code_of(error))
        leader = self._hints.add(error, broker.image.partition(wanted.topic, wanted.partition))
        if leader is not None:
            data.current_leader = FetchResponse.LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
        return data

    def answer(self) -> FetchResponse | ErrorFree:
        """Return the response; in an incremental session, only with changed partitions."""
        session_id = NO_SESSION if self._session is None else self._session.session_id
        if self._session is not None and self._session.epoch != self._epoch:
            # The same request has arrived on another connection, and advanced the session while this one waited.
            return FetchResponse(error_code=InvalidFetchSessionEpochError.code, session_id=session_id)
        if not self._is_follower and self._context.quota.record_fetch(self.size):
            return self._throttled(session_id)
        for given in self._given:
            self._context.broker.metrics.fetched(given)
        topics: list[FetchResponse.FetchableTopicResponse] = []
        previous: str | UUID | None = None
        for key, wanted, data in (*self._found, *self._refused):
            if self._session is not None and not self._include(key, wanted, data):
                continue
            if wanted.topic != previous:
                previous = wanted.topic
                topics.append(FetchResponse.FetchableTopicResponse())
                if isinstance(wanted.topic, str):
                    topics[-1].topic = wanted.topic
                else:
                    topics[-1].topic_id = wanted.topic
            topics[-1].partitions.append(data)
        response = FetchResponse(
            session_id=session_id,
            responses=topics,
            node_endpoints=self._hints.endpoints(),
        )
        return response if self._refused or self._has_failed else ErrorFree(response)

    def _throttled(self, session_id: int) -> FetchResponse:
        """Return an empty response; the next request reads the records again, and makes a new session if need be."""
        if self._incremental or self._session is None:
            return FetchResponse(session_id=session_id)
        self._context.broker.sessions.remove(session_id)
        return FetchResponse()

    def _include(self, key: Key, wanted: FetchedPartition, data: PartitionData) -> bool:
        """Return whether the response has to contain a partition of the session; record what it contains."""
        assert self._session is not None
        has_records = bool(data.records)
        changed = (
            not self._incremental
            or data.error_code != 0
            or has_records
            or data.high_watermark != wanted.sent_high_watermark
            or data.log_start_offset != wanted.sent_log_start_offset
            or data.diverging_epoch.epoch >= 0
        )
        # After an error, the next response must contain the partition again, whatever its offsets are.
        wanted.sent_high_watermark = -1 if data.error_code else data.high_watermark
        wanted.sent_log_start_offset = data.log_start_offset
        if has_records and key in self._session.partitions:
            self._session.move_to_end(key)
        return changed


def _refusal(wanted: FetchedPartition, error_code: int) -> PartitionData:
    """Return the response for a partition that cannot be read."""
    return PartitionData(partition_index=wanted.partition, error_code=error_code, high_watermark=-1, records=b"")


def _diverging_epoch(found: LocalPartition, wanted: FetchedPartition) -> FetchResponse.EpochEndOffset | None:
    """Return where the reader's log and this one diverge; None if they do not, or if the offset was deleted here.

    Raises:
        OffsetOutOfRangeError: this log does not have an epoch that old.
    """
    epoch, end_offset = found.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch == UNKNOWN_OFFSET or end_offset == UNKNOWN_OFFSET:
        raise OffsetOutOfRangeError(
            f"the leader epoch {wanted.last_fetched_epoch} is not known here",
            topic=found.topic,
            partition=wanted.partition,
            offset=wanted.fetch_offset,
        )
    if wanted.fetch_offset < found.log.log_start_offset:
        # Whether the logs diverge or not: there is nothing to compare. The read raises the error.
        return None
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return FetchResponse.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None
