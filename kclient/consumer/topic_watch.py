"""Watches that what is to be read exists: a consumer never waits in silence for a topic that does not.

An invalid or forbidden topic is raised from the owner's next call. One that no broker knows may be
about to be created: it is logged at once, and raised after `default_api_timeout_ms`, again and
again while it lasts; so is a cluster that does not answer at all.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.positions.leaders import why_missing
from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.net.manager import IDLE, NEVER, Manager, Poll

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)


class TopicWatch(Manager):
    """A manager that sends nothing.

    Parameters:
        subscription: what is to be read, and where errors go.
        metadata: what the cluster says of it.
        patience: seconds after which an unknown topic is an error.
    """

    def __init__(self, subscription: Subscription, metadata: MetadataManager, patience: float) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._patience = patience
        self._missing: dict[tuple[str, int], float] = {}
        self._seen = (-1, -1)
        self._next_look = 0.0

    def poll(self, now: float) -> Poll:
        """Look at metadata and assignment when one of them changed or patience ends."""
        cluster = self._metadata.cluster
        seen = (self._subscription.version, cluster.version)
        if seen != self._seen or now >= self._next_look:
            self._seen = seen
            self._look(now)
        return IDLE if self._next_look == NEVER else Poll([], self._next_look)

    def _look(self, now: float) -> None:
        cluster = self._metadata.cluster
        with self._subscription.lock:
            wanted = [(tp.topic, tp.partition) for tp in self._subscription.partitions]
            wanted += [(topic, 0) for topic in self._subscription.topics or ()]
        missing: dict[tuple[str, int], float] = {}
        for topic, partition in dict.fromkeys(wanted):
            if cluster.partition(topic, partition) is not None:
                continue
            error = self._metadata.topic_error(topic)
            if error is not None and not error.retriable:
                self._subscription.raise_soon(error)
                continue
            if error is not None and (topic, partition) not in self._missing:
                _log.warning("%s; waiting for it", error)
            since = self._missing.get((topic, partition), now)
            if now - since >= self._patience:
                self._subscription.raise_soon(self._patience_ended(topic, partition, error))
                since = now
            missing[topic, partition] = since
        self._missing = missing
        self._next_look = min(missing.values(), default=NEVER) + self._patience

    def _patience_ended(self, topic: str, partition: int, error: KafkaError | None) -> KafkaError:
        error = error or why_missing(self._metadata, (topic, partition))
        if error is not None:
            return error
        last = self._metadata.last_error
        because = f"; the last error: {last}" if last is not None else ""
        return KafkaTimeoutError(
            f"no broker told anything about the topic within {self._patience:g} s; check bootstrap_servers{because}",
            topic=topic,
        )
