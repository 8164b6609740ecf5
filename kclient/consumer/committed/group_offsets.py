"""The application's side of committed offsets: the calls that commit and look up offsets.

Callbacks run in the application's calls, or in its event loop. Elsewhere: which offsets a commit names (`selection`),
requests (`offset_commit`, `offset_fetch`), and the timer (`auto_commit`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple

from kclient._misuse import check_callback
from kclient._offsets import GivenOffsets, checked_partitions
from kclient.config import ConsumerConfig
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.auto_commit import AutoCommit
from kclient.consumer.committed.callbacks import CommitCallbacks
from kclient.consumer.committed.offset_commit import Commit, CommitManager
from kclient.consumer.committed.offset_fetch import CommittedFetcher, CommittedLookup
from kclient.consumer.committed.selection import CommitMode, Offsets, OffsetSelector, OffsetsToCommit, ToCommit
from kclient.consumer.group.generation import Generation
from kclient.errors import FencedInstanceIdError, KafkaError, KafkaTimeoutError
from kclient.net.manager import Manager
from kclient.net.operation import Operation, Result
from kclient.records import ConsumerRecord
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_log = logging.getLogger(__name__)

CommitCallback = Callable[[Offsets, KafkaError | None], Any]
"""A function that takes the offsets, and the error if they were not committed."""

_MARGIN = 1.0
"""Seconds by which the network thread may be late with a deadline."""


class OffsetManagers(NamedTuple):
    """The network thread's side of committed offsets.

    Attributes:
        commits: sends OffsetCommit.
        fetcher: sends OffsetFetch.
        automatic: the timer; None without automatic commits.
    """

    commits: CommitManager
    fetcher: CommittedFetcher
    automatic: AutoCommit | None


class GroupOffsets:
    """The committed offsets of one consumer's group.

    Parameters:
        config: the consumer's options.
        subscription: the assigned partitions.
        selector: the offsets that may be committed.
        managers: the network thread's side.
        callbacks: the callbacks of the application's commits.
        submit: runs a function on the network thread.
        clock: seconds; that of the client.

    Attributes:
        automatic: the timer; None without automatic commits.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: Subscription,
        selector: OffsetSelector,
        managers: OffsetManagers,
        callbacks: CommitCallbacks,
        *,
        submit: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
    ) -> None:
        assert config.group_id is not None
        self.group = config.group_id
        self.automatic = managers.automatic
        self._instance_id = config.group_instance_id
        self._timeout = config.default_api_timeout_ms / 1000
        self._subscription = subscription
        self._selector = selector
        self._commits = managers.commits
        self._fetcher = managers.fetcher
        self._callbacks = callbacks
        self._submit = submit
        self._clock = clock
        self._final: tuple[Generation | None, Future[None]] | None = None
        self._given_up = CommitMode.LEFT

    @property
    def managers(self) -> list[Manager]:
        """The managers for the network thread."""
        return [manager for manager in (self.automatic, self._commits, self._fetcher) if manager is not None]

    @property
    def commit_error(self) -> KafkaError | None:
        """Why the last automatic commit failed; None if it succeeded. Any thread."""
        return None if self.automatic is None else self.automatic.last_error

    # -- around the application's calls

    def asked(self) -> None:
        """Mark the application's records as processed, because it asks for more."""
        self._selector.asked()
        if self.automatic is not None:
            self._subscription.mark_returned()

    def left_iteration(self) -> None:
        """Note where the application leaves the chunk it iterates over, without asking for the next record."""
        self._selector.left_iteration()

    def failed(self) -> None:
        """Exclude the records returned last from the final commit: the application may have failed to process them."""
        self._given_up = CommitMode.EARLIER

    def run_callbacks(self) -> None:
        """Run the callbacks of finished commits."""
        self._callbacks.run()

    def fail_all(self, error: KafkaError) -> None:
        """Fail all commits and lookups (network thread)."""
        self._commits.fail_all(error)
        self._fetcher.fail_all(error)

    # -- committing

    def commit(self, offsets: ToCommit, timeout: float) -> Operation[None]:
        """See `Consumer.commit`."""
        chosen = self._selector.requested(offsets)
        if chosen.refused is not None:
            raise chosen.refused
        self._selector.advance(chosen.offsets)
        future: Future[None] = Future()
        self._add(Commit(chosen, timeout=timeout, repeated=True, on_done=lambda error: _end(future, error)))
        try:
            yield Result(future, self._clock() + timeout + _MARGIN)
        finally:
            self.run_callbacks()

    def commit_async(self, offsets: ToCommit, callback: CommitCallback | None) -> None:
        """See `Consumer.commit_async`."""
        if callback is not None:
            check_callback("callback", callback)
        chosen = self._selector.requested(offsets)

        def done(error: KafkaError | None) -> None:
            if callback is not None:
                self._callbacks.add(lambda: _call(callback, chosen.offsets, error))
            elif error is not None:
                _log.warning("%s", error)
            if isinstance(error, FencedInstanceIdError):
                self._subscription.raise_soon(error)

        if chosen.refused is None:
            self._selector.advance(chosen.offsets)
        self._add(Commit(chosen, timeout=self._timeout, repeated=False, on_done=done))

    def store(self, offsets: ConsumerRecord | GivenOffsets) -> None:
        """See `Consumer.store_offsets`."""
        self._selector.store(offsets)

    def commit_before_rebalance(self, deadline: float) -> Operation[bool]:
        """Wait for pending commits and, if commits are automatic, commit what is processed.

        Parameters:
            deadline: on the client's clock.

        Returns:
            Whether this has ended: committed, nothing to commit, or failed and logged. False if the deadline passed
            first; the commit continues, and another call may wait for it.
        """
        generation = self._selector.generation()
        final = self._final
        if final is None or final[0] != generation:
            final = self._final = (generation, self._commit_processed(repeated=True))
        # A wait that ends cancels its future, and the commit has to continue.
        shield: Future[None] = Future()
        final[1].add_done_callback(lambda _: _end(shield, None))
        try:
            yield Result(shield, deadline)
        except KafkaTimeoutError:
            return False
        finally:
            self.run_callbacks()
        self._final = None
        return True

    def commit_before_assign(self) -> None:
        """Commit the processed offsets of the current assignment, without waiting, before the application changes
        it.
        """
        if self.automatic is not None:
            self._commit_processed(repeated=False)

    def commit_earlier(self, timeout: float, on_done: Callable[[], None]) -> None:
        """Commit what earlier calls returned, if commits are automatic, after all earlier commits (network thread).

        Parameters:
            timeout: seconds.
            on_done: called at the end, whatever the result.
        """
        found = None if self.automatic is None else self._selector.processed(CommitMode.EARLIER)

        def done(error: KafkaError | None) -> None:
            if error is not None:
                _log.warning("the last automatic commit failed: %s", error)
            on_done()

        self._commits.add(Commit(found or OffsetsToCommit(), timeout=timeout, repeated=True, on_done=done))

    def _commit_processed(self, *, repeated: bool) -> Future[None]:
        future: Future[None] = Future()
        automatic = self.automatic
        found = None if automatic is None else self._selector.processed(self._given_up)
        chosen = found or OffsetsToCommit()
        self._selector.advance(chosen.offsets)

        def done(error: KafkaError | None) -> None:
            if automatic is not None and chosen.offsets:
                automatic.done(error)
            _end(future, None)

        self._add(Commit(chosen, timeout=self._timeout, repeated=repeated, on_done=done))
        return future

    def _add(self, commit: Commit) -> None:
        self._submit(lambda: self._commits.add(commit))

    # -- asking

    def committed(
        self, partitions: Iterable[tuple[str, int]], timeout: float
    ) -> Operation[dict[TopicPartition, OffsetAndMetadata | None]]:
        """See `Consumer.committed`."""
        lookup = CommittedLookup(checked_partitions(partitions), timeout)
        self._submit(lambda: self._fetcher.add(lookup))
        found: dict[TopicPartition, OffsetAndMetadata | None] = yield Result(
            lookup.future, self._clock() + timeout + _MARGIN
        )
        return found

    def group_metadata(self) -> ConsumerGroupMetadata:
        """See `Consumer.group_metadata`."""
        # Return the generation even after it was lost: the coordinator fences a stale generation, but accepts
        # transactional offsets without one (KIP-447).
        generation = self._selector.last_generation()
        if generation is None:
            return ConsumerGroupMetadata(self.group, group_instance_id=self._instance_id)
        return ConsumerGroupMetadata(self.group, generation.id, generation.member_id, generation.instance_id)


def _call(callback: CommitCallback, offsets: Offsets, error: KafkaError | None) -> None:
    try:
        callback(offsets, error)
    except Exception:  # noqa: BLE001 - user code; the next callback still runs
        _log.exception("the callback of a commit failed")


def _end(future: Future[None], error: KafkaError | None) -> None:
    try:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
    except InvalidStateError:  # the call has stopped waiting
        return
