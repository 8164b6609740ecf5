"""The transactional calls of an application, as operations for both producers.

After a timeout or Ctrl-C the producer continues in the background; the same call waits again, as in the Java client.
Elsewhere: the state machine (`manager`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from kclient._offsets import GivenOffsets, checked_offsets
from kclient.errors import IllegalStateError, KafkaError, KafkaTimeoutError
from kclient.net.operation import Operation, Pause
from kclient.producer.transactions.interfaces import PendingCall
from kclient.producer.transactions.manager import TransactionManager
from kclient.producer.transactions.metrics import TransactionMetrics
from kclient.producer.transactions.outcomes import copied
from kclient.producer.transactions.states import TransactionCall
from kclient.types import ConsumerGroupMetadata, PreparedTransaction

if TYPE_CHECKING:
    from kclient.net.engine import Engine

LONGEST_PAUSE = 1.0
"""Seconds between two checks of waiting calls that the network thread still runs."""

_log = logging.getLogger(__name__)


class ProducerContext(Protocol):
    """The producer that the calls belong to."""

    @property
    def engine(self) -> Engine: ...

    def check(self) -> None:
        """Raise the errors that apply to every call: closed, forked, failed."""

    def forget_failures(self) -> None:
        """Drop failures of records that a transactional call reports: flush and close need not raise them."""


class TransactionCalls:
    """The transactional calls of one producer.

    Parameters:
        producer: the producer.
        manager: its transactions; None if it has no transactional_id; then every call raises.
        max_block: seconds that calls without a timeout wait.
    """

    def __init__(self, producer: ProducerContext, manager: TransactionManager | None, max_block: float) -> None:
        self._producer = producer
        self._manager = manager
        self._max_block = max_block
        self._clock = producer.engine.clock
        self._metrics = TransactionMetrics(producer.engine.metrics)

    def init_transactions(self, timeout: float | None) -> Operation[None]:
        """See Producer.init_transactions."""
        yield from self._until_done(self._check(TransactionCall.INIT).initialize, timeout)

    def begin_transaction(self) -> None:
        """See Producer.begin_transaction."""
        started = self._clock()
        self._check(TransactionCall.BEGIN).begin()
        self._producer.forget_failures()
        self._metrics.record(TransactionCall.BEGIN, self._clock() - started)

    def send_offsets(
        self, offsets: GivenOffsets, group_metadata: ConsumerGroupMetadata, timeout: float | None
    ) -> Operation[None]:
        """See Producer.send_offsets_to_transaction."""
        manager = self._check(TransactionCall.SEND_OFFSETS)
        checked = checked_offsets(offsets)
        check_group(group_metadata)
        yield from self._until_done(lambda: manager.send_offsets(checked, group_metadata), timeout)

    def prepare_transaction(self, timeout: float | None) -> Operation[PreparedTransaction]:
        """See Producer.prepare_transaction."""
        done = yield from self._until_done(self._check(TransactionCall.PREPARE).prepare, timeout)
        assert done.prepared is not None
        return done.prepared

    def commit_transaction(self, timeout: float | None) -> Operation[None]:
        """See Producer.commit_transaction."""
        yield from self._until_done(self._check(TransactionCall.COMMIT).commit, timeout)

    def abort_transaction(self, timeout: float | None) -> Operation[None]:
        """See Producer.abort_transaction."""
        yield from self._until_done(self._check(TransactionCall.ABORT).abort, timeout)
        self._producer.forget_failures()

    def close(self, timeout: float | None) -> Operation[None]:
        """Abort an open transaction, and wait for one that is ending; a failure is logged."""
        # In a forked child the manager's lock may be held by a thread that does not exist there.
        self._producer.engine.check_usable()
        pending = None if self._manager is None else self._manager.close()
        if pending is None:
            return
        self._producer.engine.wakeup()
        try:
            yield from self._wait(pending, timeout)
        except KafkaError as error:
            _log.warning("the producer was closed before its transaction ended: %s", error)
        self._producer.forget_failures()

    def _check(self, call: TransactionCall) -> TransactionManager:
        if self._manager is None:
            raise IllegalStateError(f"{call.value}() needs a producer with a transactional_id")
        try:
            self._producer.check()
        except KafkaError:
            self._producer.forget_failures()
            raise
        return self._manager

    def _until_done(self, make: _Make, timeout: float | None) -> Operation[PendingCall]:
        started = self._clock()
        pending = make()
        self._producer.engine.wakeup()
        yield from self._wait(pending, timeout)
        self._metrics.record(pending.call, self._clock() - started)
        return pending

    def _wait(self, pending: PendingCall, timeout: float | None) -> Operation[None]:
        seconds = self._max_block if timeout is None else timeout
        deadline = self._clock() + seconds
        while not pending.done:
            self._producer.engine.check_usable()
            left = deadline - self._clock()
            if left <= 0:
                raise self._too_late(pending.call, seconds)
            yield Pause(min(LONGEST_PAUSE, left))
        pending.seen = True
        if pending.error is not None:
            self._producer.forget_failures()
            raise copied(pending.error)

    def _too_late(self, call: TransactionCall, seconds: float) -> KafkaTimeoutError:
        assert self._manager is not None
        cause = self._manager.last_error() or self._producer.engine.metadata.last_error
        why = f"; the last error was: {cause}" if cause is not None else ""
        error = KafkaTimeoutError(
            f"{call.value}() of the producer {self._manager.transactional_id!r} did not end within {seconds:g} s{why}; "
            "it continues, and the same call waits for it again"
        )
        error.__cause__ = cause
        return error


class _Make(Protocol):
    def __call__(self) -> PendingCall: ...


def check_group(group: ConsumerGroupMetadata) -> None:
    """Check that this is the membership of a consumer.

    Raises:
        TypeError, ValueError: it is not.
    """
    if not isinstance(group, ConsumerGroupMetadata):
        raise TypeError(f"group_metadata is what consumer.group_metadata() returns, not {group!r}")
    if not group.group_id:
        raise ValueError("group_metadata names no group: the consumer has no group_id")
    if group.generation_id > 0 and not group.member_id:
        raise ValueError(f"group_metadata has the generation {group.generation_id} and no member_id")
