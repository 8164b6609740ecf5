"""Lookup of topic names by id: the consumer protocol assigns partitions by topic id.

It runs on the network thread. Topics subscribed to by name are in the metadata; topics that the coordinator chose by a
pattern are not, nor are topics that were just created. Elsewhere: the metadata itself (`kclient.net.metadata`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from random import Random
from uuid import UUID

from kclient.config import ClientConfig
from kclient.errors import KafkaError
from kclient.net.backoff import retry_backoff
from kclient.net.manager import ANY_NODE, IDLE, NEVER, Manager, Poll, Request
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse

_log = logging.getLogger(__name__)

_IDS_FROM = 12
"""The first version of Metadata that looks up ids."""


class TopicNames(Manager):
    """The manager of Metadata requests by id.

    Parameters:
        config: the client's options.
        random: for jitter.
        on_found: called when names were found.

    Attributes:
        names: those found so far, by id; replaced, never changed. Any thread may read it.
    """

    def __init__(self, config: ClientConfig, *, random: Random, on_found: Callable[[], None]) -> None:
        self.names: dict[UUID, str] = {}
        self._backoff = retry_backoff(config, random)
        self._on_found = on_found
        self._wanted: set[UUID] = set()
        self._asking = False
        self._failures = 0
        self._retry_at = 0.0

    def want(self, ids: Iterable[UUID]) -> None:
        """Look up these ids, and no others, until they are found."""
        wanted = {topic_id for topic_id in ids if topic_id not in self.names}
        if wanted - self._wanted:
            self._failures = 0
            self._retry_at = 0.0
        self._wanted = wanted

    def poll(self, now: float) -> Poll:
        """Return a request for all wanted ids."""
        if not self._wanted or self._asking:
            return IDLE
        if now < self._retry_at:
            return Poll([], self._retry_at)
        self._asking = True
        wanted = sorted(self._wanted)
        return Poll([self._request(wanted)], NEVER)

    def _request(self, wanted: list[UUID]) -> Request:
        topics = [MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in wanted]
        message = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        return Request(
            ANY_NODE, MetadataRequest, lambda version: message, self._answered, self._failed, minimum_version=_IDS_FROM
        )

    def _answered(self, response: MetadataResponse, now: float) -> None:
        self._asking = False
        found = {topic.topic_id: topic.name for topic in response.topics if topic.name and not topic.error_code}
        self.names = {**self.names, **found}
        self._wanted -= found.keys()
        if self._wanted:
            # The broker may not know the topic yet, or it was deleted.
            self._again(now)
        else:
            self._failures = 0
        if found:
            self._on_found()

    def _failed(self, error: KafkaError, now: float) -> None:
        self._asking = False
        _log.info("the names of topics are unknown: %s", error)
        self._again(now)

    def _again(self, now: float) -> None:
        self._failures += 1
        self._retry_at = now + self._backoff.seconds(self._failures)
