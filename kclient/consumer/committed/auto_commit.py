"""The automatic commit, every `auto_commit_interval_ms`, of what earlier calls returned.

It runs on the network thread, while the application processes the last records, which are not committed before it asks
for more. A commit that failed with a retriable error is not retried: the next one follows soon, with newer offsets.
Elsewhere: what is committed before a rebalance and at the end (`group_offsets`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

from kclient.config import ConsumerConfig
from kclient.consumer.committed.offset_commit import Commit, CommitManager
from kclient.consumer.committed.selection import CommitMode, OffsetSelector
from kclient.errors import KafkaError, RebalanceInProgressError
from kclient.net.backoff import retry_backoff
from kclient.net.manager import IDLE, Manager, Poll

_log = logging.getLogger(__name__)

_SHORTEST = 0.01
"""The shortest time in seconds between two commits."""
_PATIENCE = 5.0
"""The shortest timeout of a commit in seconds."""


class AutoCommit(Manager):
    """The timer of automatic commits.

    Parameters:
        config: the consumer's options.
        commits: sends the commits.
        selector: the offsets that may be committed.
        random: for jitter.
        on_fatal: receives an error that the application must raise.

    Attributes:
        last_error: why the last automatic commit failed; None once one succeeded. Any thread.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        commits: CommitManager,
        selector: OffsetSelector,
        *,
        random: Random,
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        self.last_error: KafkaError | None = None
        self._interval = max(config.auto_commit_interval_ms / 1000, _SHORTEST)
        self._timeout = min(max(self._interval, _PATIENCE), config.default_api_timeout_ms / 1000)
        self._commits = commits
        self._selector = selector
        self._backoff = retry_backoff(config, random)
        self._on_fatal = on_fatal
        self._due: float | None = None
        self._under_way: Commit | None = None
        self._failures = 0
        self._retry = False

    def poll(self, now: float) -> Poll:
        """Start a commit if one is due and no other is in progress."""
        if self._under_way is not None:
            return IDLE
        if self._due is None:
            self._due = now + self._interval
        elif self._retry:
            self._retry = False
            self._due = now + min(self._interval, self._backoff.seconds(self._failures))
        if now < self._due:
            return Poll([], self._due)
        if self._commits.busy:
            return IDLE
        found = self._selector.processed(CommitMode.EARLIER)
        if found is None:
            return IDLE
        self._due = now + self._interval
        if found.offsets:
            self._under_way = commit = Commit(found, timeout=self._timeout, repeated=False, on_done=self.done)
            self._commits.add(commit)
        return Poll([], self._due)

    def done(self, error: KafkaError | None) -> None:
        """Note the result of an automatic commit, by the timer or before a rebalance (network thread)."""
        self._under_way = None
        if error is None:
            self._failures = 0
            self.last_error = None
            return
        if isinstance(error, RebalanceInProgressError):
            _log.info("automatic commit: %s", error)
            return
        _log.warning("automatic commit: %s", error)
        self.last_error = error
        if error.fatal:
            self._on_fatal(error)
        if error.retriable:
            self._failures += 1
            self._retry = True
