"""Commits by itself, every `auto_commit_interval_ms`, what earlier calls returned.

On the network thread, so that it happens while the application works on what it was given last, which is not
committed before it asks for more. A commit that failed for now is not repeated: the next one takes its place soon,
with the offsets of that time. Left out: what is committed before a rebalance and at the end (`committing`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple
from uuid import UUID

from kclient.config import ConsumerConfig
from kclient.consumer.committed.offset_commit import Commit, CommitManager
from kclient.consumer.group.classic.states import Generation
from kclient.errors import KafkaError, RebalanceInProgressError
from kclient.net.backoff import retry_backoff
from kclient.net.manager import IDLE, Manager, Poll
from kclient.types import OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)

_SHORTEST = 0.01
"""Seconds between two commits, if the option asks for them without a pause."""
_PATIENCE = 5.0
"""Seconds that a commit may take, at the least, before it counts as failed."""


class Committable(NamedTuple):
    """What may be committed now.

    Attributes:
        generation: in which; None: as no member.
        offsets: what.
        ids: of its topics, as far as they are known.
        still_held: whether all its partitions are assigned as they are now, and have been since.
    """

    generation: Generation | None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ids: Mapping[str, UUID]
    still_held: Callable[[], bool]


class AutoCommit(Manager):
    """The timer.

    Parameters:
        config: the consumer's options.
        commits: commits.
        committable: what may be committed; None while the group rebalances.
        random: for jitter.
        on_fatal: takes an error that the owner has to hear of.

    Attributes:
        last_error: why the last automatic commit failed; None once one succeeded. Any thread.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        commits: CommitManager,
        committable: Callable[[], Committable | None],
        *,
        random: Random,
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        self.last_error: KafkaError | None = None
        self._interval = max(config.auto_commit_interval_ms / 1000, _SHORTEST)
        self._timeout = min(max(self._interval, _PATIENCE), config.default_api_timeout_ms / 1000)
        self._commits = commits
        self._committable = committable
        self._backoff = retry_backoff(config, random)
        self._on_fatal = on_fatal
        self._due: float | None = None
        self._under_way: Commit | None = None
        self._failures = 0
        self._retry = False

    def poll(self, now: float) -> Poll:
        """Hand over a commit when one is due, and nobody else's is under way."""
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
        found = self._committable()
        if found is None:
            return IDLE
        self._due = now + self._interval
        if found.offsets:
            self._under_way = commit = Commit(
                found.offsets,
                found.generation,
                timeout=self._timeout,
                repeated=False,
                on_done=self.done,
                still_held=found.still_held,
                ids=found.ids,
            )
            self._commits.add(commit)
        return Poll([], self._due)

    def done(self, error: KafkaError | None) -> None:
        """An automatic commit ended, at its time or before a rebalance (network thread)."""
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
