"""The manager that keeps the client's view of the cluster up to date.

It requests the metadata of the topics of interest from any broker when a topic is new, when an update is requested and
when the view has expired; with backoff, one request at a time. If no known broker is reachable, or a broker demands it,
it rebootstraps from the bootstrap servers (KIP-899, KIP-1102). Elsewhere: the effect of a response on the snapshot
(`cluster`), and connections.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

from kclient.config import ClientConfig
from kclient.errors import (
    BrokerNotAvailableError,
    ClosedError,
    KafkaError,
    RebootstrapRequiredError,
    error_from_code,
)
from kclient.net.backoff import retry_backoff
from kclient.net.cluster import Cluster as Cluster
from kclient.net.cluster import TopicInfo as TopicInfo
from kclient.net.manager import ANY_NODE, IDLE, NEVER, Manager, Poll, Request
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.types import Node, TopicPartition

_log = logging.getLogger(__name__)

_WARN_EVERY = 60.0
"""Seconds between warnings of a rebootstrap: a broker that drops every connection would cause one a second."""


class MetadataNodes(Protocol):
    """The connections as the metadata manager sees them."""

    def set_brokers(self, brokers: Mapping[int, Node]) -> None:
        """Replace the brokers and their addresses."""

    def use_bootstrap(self) -> None:
        """Send requests for any node to the bootstrap servers until `set_brokers`."""

    def all_unreachable(self) -> bool:
        """Return whether every known broker failed when last connected to; False while the bootstrap servers are
        used.
        """

    def last_error(self) -> KafkaError | None:
        """Return why connecting failed the last time, while no broker is connected."""


class MetadataManager(Manager):
    """The view of the cluster, and the manager that refreshes it.

    `cluster` may be read from any thread; the methods that say so may be called from any.

    Parameters:
        config: the client's options.
        nodes: the connections.
        random: for jitter.
        wakeup: makes the driver poll soon; called from any thread.
        auto_create: whether brokers may create the requested topics.
    """

    def __init__(
        self,
        config: ClientConfig,
        nodes: MetadataNodes,
        *,
        random: random.Random,
        wakeup: Callable[[], None] = lambda: None,
        auto_create: bool = False,
    ) -> None:
        self.cluster = Cluster()
        self.fatal_error: KafkaError | None = None
        """An error that a retry cannot solve: no bootstrap server speaks Kafka's protocol or a supported version of it.
        """
        self._last_error: KafkaError | None = None
        self._nodes = nodes
        self._wakeup = wakeup
        self._auto_create = auto_create
        self._label = config.label
        self._backoff = retry_backoff(config, random)
        self._max_age = config.metadata_max_age_ms / 1000
        self._rebootstraps = config.metadata_recovery_strategy == "rebootstrap"
        self._rebootstrap_after = config.metadata_recovery_rebootstrap_trigger_ms / 1000
        self._listeners: list[Callable[[Cluster], None]] = []
        self._lock = threading.Lock()
        self._topics: dict[str, None] = {}
        self._new_topics: set[str] = set()
        self._requested_topics: set[str] = set()
        """Those that were new when the request in flight, or one that failed, was built."""
        self._gone_topics: set[str] = set()
        self._want_all = False
        self._update_wanted = True
        self._asking = False
        self._failures = 0
        self._incomplete = 0
        self._next_attempt = 0.0
        self._refresh_at = 0.0
        self._trying_since = NEVER
        self._warn_at = 0.0

    # -- from any thread

    def add_topic(self, topic: str) -> None:
        """Keep the metadata of a topic, and request it soon if it is unknown. Any thread."""
        if topic in self._topics:
            return
        with self._lock:
            self._topics[topic] = None
            self._gone_topics.discard(topic)
            self._new_topics.add(topic)
        self._wakeup()

    def remove_topics(self, topics: Iterable[str]) -> None:
        """Drop the metadata of topics. Any thread."""
        with self._lock:
            for topic in topics:
                if self._topics.pop(topic, 0) is None:
                    self._gone_topics.add(topic)
                    self._new_topics.discard(topic)
        self._wakeup()

    def set_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of exactly these topics. Any thread."""
        wanted = dict.fromkeys(topics)
        self.remove_topics([topic for topic in list(self._topics) if topic not in wanted])
        for topic in wanted:
            self.add_topic(topic)

    @property
    def want_all(self) -> bool:
        """Whether the metadata of all topics is kept, as for a subscription by pattern. Any thread."""
        return self._want_all

    @want_all.setter
    def want_all(self, value: bool) -> None:
        if value != self._want_all:
            self._want_all = value
            self.request_update()

    def request_update(self) -> None:
        """Request an update, immediately or once the backoff since the last attempt has passed. Any thread."""
        if not self._update_wanted:
            self._update_wanted = True
            self._wakeup()

    @property
    def last_error(self) -> KafkaError | None:
        """Why there is no current metadata: the error of connecting or of the request; None without one. Any thread."""
        return self._nodes.last_error() or self._last_error

    def topic_error(self, topic: str) -> KafkaError | None:
        """Return the current error of a topic: invalid, forbidden, unknown; None without one. Any thread.

        The error of a response counts only if its request was built after the topic was added: a response in flight
        may date from before the application has created the topic, or has been allowed to use it.
        """
        if topic in self._new_topics or topic in self._requested_topics or topic in self._gone_topics:
            return None
        info = self.cluster.topics.get(topic)
        return None if info is None else info.error

    # -- on the network thread

    def add_listener(self, callback: Callable[[Cluster], None]) -> None:
        """Call a function, on the network thread, with the snapshot after each update and with each `fatal_error`."""
        self._listeners.append(callback)

    def update_leaders(self, leaders: Mapping[TopicPartition, tuple[int, int]], nodes: Iterable[Node]) -> None:
        """Apply the new leaders of a broker's response (KIP-951): by partition, broker id and leader epoch."""
        cluster = self.cluster.with_leaders(leaders, nodes)
        if cluster is not None:
            self._nodes.set_brokers(cluster.brokers)
            self._publish(cluster)

    def poll(self, now: float) -> Poll:
        """Return a Metadata request if one is due."""
        if self._gone_topics:
            self._forget_gone()
        if self._asking:
            return self._watch(now)
        if not (self._update_wanted or self._new_topics or now >= self._refresh_at):
            return Poll([], self._refresh_at)
        self._trying_since = min(self._trying_since, now)
        # A new topic waits for the backoff after a failure only.
        may_ask_at = self._next_attempt if self._failures or not self._new_topics else 0.0
        if now < may_ask_at:
            return Poll([], may_ask_at)
        return Poll([self._request(now)], self._watch(now).deadline)

    def _watch(self, now: float) -> Poll:
        """Watch the request in flight: rebootstrap if no broker is left to respond."""
        if not self._rebootstraps or self.cluster.version == 0:
            return IDLE
        if now >= self._trying_since + self._rebootstrap_after:
            self._rebootstrap(now, f"there was no metadata for {self._rebootstrap_after:g} s")
        elif self._nodes.all_unreachable():
            self._rebootstrap(now, "no known broker can be reached")
        return Poll([], self._trying_since + self._rebootstrap_after)

    def _rebootstrap(self, now: float, reason: str) -> None:
        level = logging.DEBUG if now < self._warn_at else logging.WARNING
        _log.log(level, "%s: rebootstrapping from the bootstrap servers: %s", self._label, reason)
        if level == logging.WARNING:
            self._warn_at = now + _WARN_EVERY
        self._trying_since = now
        self._nodes.use_bootstrap()

    def _request(self, now: float) -> Request:
        with self._lock:
            everything = self._update_wanted or self._want_all or now >= self._refresh_at
            wanted = list(self._topics) if everything else sorted(self._new_topics)
            # In this order, because `topic_error` reads both without the lock.
            self._requested_topics |= self._new_topics
            self._new_topics.clear()
        if everything:
            self._update_wanted = False
        self._asking = True
        asked = None if self._want_all else wanted
        return Request(
            ANY_NODE,
            MetadataRequest,
            partial(self._build, asked),
            partial(self._answered, asked, everything),
            self._failed,
            minimum_version=1,
        )

    def _build(self, asked: list[str] | None, version: int) -> MetadataRequest:
        topics = None if asked is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in asked]
        # Before version 4 a broker decides by itself.
        return MetadataRequest(topics=topics, allow_auto_topic_creation=self._auto_create or version < 4)

    def _answered(self, asked: list[str] | None, everything: bool, response: MetadataResponse, now: float) -> None:
        if response.error_code:
            error = error_from_code(response.error_code, api="Metadata")
            self._failed(error, now)
            if isinstance(error, RebootstrapRequiredError) and self._rebootstraps:
                self._rebootstrap(now, "a broker requested it")
            return
        if not response.brokers:
            # A broker that is starting does not know other brokers yet.
            self._failed(BrokerNotAvailableError("the response contained no brokers", api="Metadata"), now)
            return
        self._asking = False
        if self._failures:
            _log.warning("%s: metadata was updated again", self._label)
        self._failures = 0
        self._trying_since = NEVER
        self._last_error = self.fatal_error = None
        interesting = set(self._topics)
        keep = [] if asked is None else [name for name in self.cluster.topics if name in interesting]
        cluster = self.cluster.updated(response, asked=asked, keep=keep)
        self._incomplete = self._incomplete + 1 if _is_incomplete(cluster, interesting) else 0
        self._update_wanted |= self._incomplete > 0
        self._next_attempt = now + self._backoff.seconds(max(1, self._incomplete))
        if everything:
            self._refresh_at = now + self._max_age
        self._nodes.set_brokers(cluster.brokers)
        self.cluster = cluster
        self._requested_topics.clear()
        self._publish(cluster)

    def _failed(self, error: KafkaError, now: float) -> None:
        self._asking = False
        if isinstance(error, ClosedError):
            return
        self._failures += 1
        self._update_wanted = True
        self._next_attempt = now + self._backoff.seconds(self._failures)
        self._last_error = error
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        _log.log(level, "%s: metadata could not be updated: %s", self._label, error)
        if error.fatal:
            self.fatal_error = error
            self._publish(self.cluster)

    def _forget_gone(self) -> None:
        with self._lock:
            gone = set(self._gone_topics)
        known = gone & self.cluster.topics.keys()
        if known and not self._want_all:
            self._publish(self.cluster.without(known))
        # Only now, because `topic_error` takes what is gone for unknown.
        with self._lock:
            self._gone_topics -= gone

    def _publish(self, cluster: Cluster) -> None:
        self.cluster = cluster
        for listener in self._listeners:
            listener(cluster)


def _is_incomplete(cluster: Cluster, interesting: Iterable[str]) -> bool:
    """Return whether an early retry may return more: a topic is missing, or a partition has no leader."""
    for name in interesting:
        info = cluster.topics.get(name)
        if info is None:
            continue
        if info.error is not None:
            if info.error.retriable:
                return True
        elif any(partition.leader is None for partition in info.partitions):
            return True
    return False
