"""Incremental fetch sessions (KIP-227): what a broker knows, and what the next request must contain.

One object per broker. A full request (epoch 0) opens a session; each later one contains only the changes and increments
the epoch; after an error the next request is full. From Fetch v13 on topics have ids: a session uses either ids or
names, and a change between them opens a new session. Sessions exist since v7; below, or if the broker grants none,
every request is full.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from kclient.errors import FetchSessionIdNotFoundError
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.types import TopicPartition

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 2**31 - 1
_NO_ID = UUID(int=0)


class FetchTarget(NamedTuple):
    """What is requested of one partition."""

    topic_id: UUID
    fetch_offset: int
    max_bytes: int
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


class SessionRequest(NamedTuple):
    """One request of a session; `targets` is everything that the broker knows after it."""

    session_id: int
    epoch: int
    uses_ids: bool
    targets: dict[TopicPartition, FetchTarget]
    send: dict[TopicPartition, FetchTarget]
    forget: list[tuple[TopicPartition, UUID]]

    def topic_names(self) -> dict[UUID, str]:
        """Return the topics of this request by id."""
        return {target.topic_id: tp.topic for tp, target in self.targets.items()}


class FetchSession:
    """The session with one broker."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.uses_ids = False
        self.targets: dict[TopicPartition, FetchTarget] = {}

    def next_request(self, targets: dict[TopicPartition, FetchTarget]) -> SessionRequest:
        """Return the request after which the broker knows exactly these targets; takes over the dict."""
        uses_ids = all(target.topic_id != _NO_ID for target in targets.values())
        if uses_ids != self.uses_ids:
            self.epoch = INITIAL_EPOCH
        send, forget = targets, []
        if self.epoch != INITIAL_EPOCH:
            known = self.targets
            send = {tp: target for tp, target in targets.items() if known.get(tp) != target}
            # A recreated topic is a different topic for the session: its old id is forgotten.
            forget = [
                (tp, old.topic_id)
                for tp, old in known.items()
                if tp not in targets or targets[tp].topic_id != old.topic_id
            ]
        self.uses_ids = uses_ids
        self.targets = targets
        return SessionRequest(self.session_id, self.epoch, uses_ids, targets, send, forget)

    def accept(self, response: FetchResponse) -> bool:
        """Apply the session fields of a response; return False after a session error."""
        if response.error_code:
            if response.error_code == FetchSessionIdNotFoundError.code:
                self.session_id = NO_SESSION
            self.epoch = INITIAL_EPOCH
            return False
        if response.session_id == NO_SESSION:
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        elif self.epoch == INITIAL_EPOCH:
            self.session_id, self.epoch = response.session_id, 1
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        return True

    def fail(self) -> None:
        """Start a new session, because a request failed and the broker's state is unknown."""
        self.epoch = INITIAL_EPOCH

    def closing_request(self) -> SessionRequest | None:
        """Return the request that closes the session; None without a session."""
        if self.session_id == NO_SESSION:
            return None
        return SessionRequest(self.session_id, FINAL_EPOCH, self.uses_ids, {}, {}, [])


def build_fetch(
    request: SessionRequest,
    version: int,
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation_level: int,
    rack: str,
) -> FetchRequest:
    """Return the message for a negotiated version (4 to 18)."""
    message = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, isolation_level=isolation_level
    )
    if version >= 11:
        message.rack_id = rack
    send = request.targets
    if version >= 7:
        message.session_id, message.session_epoch = request.session_id, request.epoch
        send = request.send
        message.forgotten_topics_data = _forgotten(request.forget, version)
    topics: dict[str, FetchRequest.FetchTopic] = {}
    for (name, partition), target in send.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = (
                FetchRequest.FetchTopic(topic_id=target.topic_id, partitions=[])
                if version >= 13
                else FetchRequest.FetchTopic(topic=name, partitions=[])
            )
        topic.partitions.append(
            FetchRequest.FetchPartition(
                partition=partition,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.fetch_offset,
                last_fetched_epoch=target.last_fetched_epoch if version >= 12 else -1,
                partition_max_bytes=target.max_bytes,
            )
        )
    message.topics = list(topics.values())
    return message


def _forgotten(forget: list[tuple[TopicPartition, UUID]], version: int) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, UUID], FetchRequest.ForgottenTopic] = {}
    for (name, partition), topic_id in forget:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = (
                FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[])
                if version >= 13
                else FetchRequest.ForgottenTopic(topic=name, partitions=[])
            )
        topic.partitions.append(partition)
    return list(topics.values())
