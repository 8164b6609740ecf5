"""Incremental fetch sessions: the broker remembers what a client fetches, and answers with what changed (KIP-227).

A session has an id, and an epoch that each request raises by one; a request with the wrong one is
refused, so that client and broker never disagree on what is in the session. When there are too many, one
that was idle for two minutes makes room, or a smaller one that is not new. Sessions live in memory only: after a
restart clients are told that theirs is not there, and begin anew.

A session keeps the name that a topic's id had when it was first seen: a partition of a deleted topic is then one that
is not there, and with another topic of that name in its place, one whose id has changed. Without a session the id alone
counts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from uuid import UUID

from kclient.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)

NO_SESSION = 0
FIRST_EPOCH = 0
LAST_EPOCH = -1
EVICTABLE_AFTER_MS = 120_000
INT32_MAX = 2**31 - 1

Key = tuple[str | UUID, int]


@dataclass(slots=True)
class FetchedPartition:
    """What a client wants of a partition, and what it was told last.

    Attributes:
        topic: as the client names it.
        name: the topic's name; None as long as no topic has had the id.
    """

    topic: str | UUID
    name: str | None
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    told_high_watermark: int = -1
    told_log_start_offset: int = -1

    def update(self, newer: FetchedPartition) -> None:
        """Take over what the client wants now."""
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch


@dataclass(slots=True)
class FetchSession:
    """One session.

    Attributes:
        created_ms: when it began.
        last_used_ms: when its last request came.
        epoch: what the next request must have.
        partitions: in the order they are read; one that gave records goes to the end.
    """

    session_id: int
    uses_topic_ids: bool
    partitions: dict[Key, FetchedPartition]
    created_ms: int
    last_used_ms: int
    epoch: int = field(default=1)

    def advance(self) -> None:
        """A request was accepted."""
        self.epoch = 1 if self.epoch == INT32_MAX else self.epoch + 1

    def move_to_end(self, key: Key) -> None:
        """Read this partition after the others the next time."""
        self.partitions[key] = self.partitions.pop(key)


class FetchSessions:
    """The sessions of all clients.

    Parameters:
        slots: how many are kept.
        rng: for their ids.
    """

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """A new session; None when there is no room for it.

        Parameters:
            partitions: what it begins with.
            uses_topic_ids: whether its requests name topics by id.
            now_ms: the time.
        """
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._rng.randrange(1, INT32_MAX)
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids, partitions, now_ms, now_ms)
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Make room for a session of `size` partitions, if one that is idle or smaller can go."""
        if not self._sessions:
            return False
        # The least recently used one is the first: use moves a session to the end.
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTABLE_AFTER_MS:
            del self._sessions[oldest.session_id]
            return True
        # A session has some time to be of use before a larger one may take its place.
        settled = [one for one in self._sessions.values() if one.last_used_ms - one.created_ms > EVICTABLE_AFTER_MS]
        smallest = min(settled, key=lambda session: len(session.partitions), default=None)
        if smallest is not None and len(smallest.partitions) < size:
            del self._sessions[smallest.session_id]
            return True
        return False

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """The session of a request, which counts as its next one.

        Raises:
            FetchSessionIdNotFoundError: there is no such session (any more).
            InvalidFetchSessionEpochError: the request is not the next one.
            FetchSessionTopicIdError: the session names topics the other way.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFoundError
        if session.epoch != epoch:
            raise InvalidFetchSessionEpochError(f"the session is at epoch {session.epoch}, not {epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError
        session.advance()
        session.last_used_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def find(self, session_id: int) -> FetchSession | None:
        """A session as it is; None when it is not there."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """End a session; one that is not there is no error."""
        self._sessions.pop(session_id, None)
