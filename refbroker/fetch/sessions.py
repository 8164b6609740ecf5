"""Incremental fetch sessions: the broker remembers what a client fetches and responds with what changed (KIP-227).

A session has an id and an epoch that each request increments by one. A request with another epoch is refused, so that
client and broker never disagree on the partitions of the session. When all slots are taken, a new session evicts one
that was idle for two minutes, or a smaller one that is at least two minutes old. Sessions live in memory only: after a
restart clients receive FETCH_SESSION_ID_NOT_FOUND and create new sessions.

A session keeps the name that a topic id resolved to when it was first seen. A partition of a deleted topic is then
reported as unknown, or as having an inconsistent topic id if another topic has taken the name. Without a session only
the id is used.
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
    """The fetch parameters of a partition in a session, and the offsets that the client last received.

    Attributes:
        topic: the topic's name or id, as in the request.
        name: the topic's name; None until a topic has the id.
    """

    topic: str | UUID
    name: str | None
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    sent_high_watermark: int = -1
    sent_log_start_offset: int = -1

    def update(self, newer: FetchedPartition) -> None:
        """Take over the fetch parameters of a newer request."""
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch


@dataclass(slots=True)
class FetchSession:
    """A fetch session.

    Attributes:
        created_ms: the time of creation, in milliseconds.
        last_used_ms: the time of the last request, in milliseconds.
        epoch: the epoch that the next request must have.
        partitions: the partitions in the order they are read; one that returned records moves to the end.
    """

    session_id: int
    uses_topic_ids: bool
    partitions: dict[Key, FetchedPartition]
    created_ms: int
    last_used_ms: int
    epoch: int = field(default=1)

    def advance(self) -> None:
        """Increment the epoch after an accepted request; it wraps around to 1."""
        self.epoch = 1 if self.epoch == INT32_MAX else self.epoch + 1

    def move_to_end(self, key: Key) -> None:
        """Move a partition to the end, so that the next request reads it after the others."""
        self.partitions[key] = self.partitions.pop(key)


class FetchSessions:
    """The sessions of all clients.

    Parameters:
        slots: the greatest number of sessions.
        rng: generates session ids.
    """

    def __init__(self, slots: int, rng: random.Random) -> None:
        self._slots = slots
        self._rng = rng
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        """Return a new session; None if all slots are taken and no session can be evicted.

        Parameters:
            partitions: the partitions of the full fetch request.
            uses_topic_ids: whether the session's requests name topics by id.
            now_ms: the time, in milliseconds.
        """
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._rng.randrange(1, INT32_MAX)
        session = self._sessions[session_id] = FetchSession(session_id, uses_topic_ids, partitions, now_ms, now_ms)
        return session

    def _evict(self, size: int, now_ms: int) -> bool:
        """Evict an idle or a smaller session for one of `size` partitions; return whether one was evicted."""
        if not self._sessions:
            return False
        # The first session is the least recently used one, because each request moves its session to the end.
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTABLE_AFTER_MS:
            del self._sessions[oldest.session_id]
            return True
        # A larger session may not evict one that is newer than this.
        settled = [one for one in self._sessions.values() if one.last_used_ms - one.created_ms > EVICTABLE_AFTER_MS]
        smallest = min(settled, key=lambda session: len(session.partitions), default=None)
        if smallest is not None and len(smallest.partitions) < size:
            del self._sessions[smallest.session_id]
            return True
        return False

    def resume(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """Return the session of an incremental request and advance its epoch.

        Raises:
            FetchSessionIdNotFoundError: the session does not exist, or was evicted.
            InvalidFetchSessionEpochError: the epoch is not the one that the session expects.
            FetchSessionTopicIdError: the session uses topic ids and the request names, or the reverse.
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
        """Return a session without advancing it; None if it does not exist."""
        return self._sessions.get(session_id)

    def remove(self, session_id: int) -> None:
        """Remove a session if it exists."""
        self._sessions.pop(session_id, None)
