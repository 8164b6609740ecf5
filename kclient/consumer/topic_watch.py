"""The check that the subscribed topics exist: a consumer never waits silently for a topic that does not.

An invalid or forbidden topic raises an error from the application's next call. One that no broker knows may be about to
be created: it is logged immediately, and raised after every `default_api_timeout_ms` while it is missing. The time
counts only while brokers respond: an outage is not an error of a topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.positions.leaders import why_missing
from kclient.net.manager import IDLE, NEVER, Manager, Poll

if TYPE_CHECKING:
    from kclient.net.metadata import MetadataManager

_log = logging.getLogger(__name__)


class TopicWatch(Manager):
    """A manager that sends nothing.

    Parameters:
        subscription: has the topics, and receives errors.
        metadata: the state of the topics.
        is_unreachable: returns whether no broker is reachable.
        patience: seconds after which an unknown topic is an error.
    """

    def __init__(
        self,
        subscription: Subscription,
        metadata: MetadataManager,
        is_unreachable: Callable[[], bool],
        patience: float,
    ) -> None:
        self._subscription = subscription
        self._metadata = metadata
        self._is_unreachable = is_unreachable
        self._patience = patience
        self._missing: dict[tuple[str, int], float] = {}
        self._seen = (-1, -1)
        self._next_look = 0.0

    def poll(self, now: float) -> Poll:
        """Check metadata and assignment when one of them changed or the patience ends."""
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
        unreachable = self._is_unreachable()
        for topic, partition in dict.fromkeys(wanted):
            if cluster.partition(topic, partition) is not None:
                continue
            error = why_missing(self._metadata, (topic, partition))
            if error is not None and not error.retriable:
                self._subscription.raise_soon(error)
                continue
            if error is not None and (topic, partition) not in self._missing:
                _log.warning("%s; waiting for it", error)
            since = self._missing.get((topic, partition), now)
            if error is None or unreachable:
                since = now
            elif now - since >= self._patience:
                self._subscription.raise_soon(error)
                since = now
            missing[topic, partition] = since
        self._missing = missing
        self._next_look = min(missing.values(), default=NEVER) + self._patience
