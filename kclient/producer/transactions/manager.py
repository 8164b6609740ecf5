"""The transaction of one producer: its state, its next request, and the handling of results.

The application's threads only change the state; the network thread does the rest, driven by the sender, which asks
before it sends a batch (`may_send`); the settlement reports failed batches. One lock guards both sides.

The end of a transaction waits until nothing is unsent and no Produce request is unanswered, even of batches that were
given up: a batch that arrives after the marker would belong to the next transaction, or to none at all. An abort drops
batches that are not in flight. The version of transactions follows the cluster's finalized feature
`transaction.version` and is looked up between two transactions. With version 2 each end brings a new epoch, and the
first batch of a partition adds it to the transaction. With version 1 partitions are added by a request, and an epoch is
asked for only where numbers were lost (KIP-360) or version 2 comes next.

Elsewhere: what has to be added to a transaction (`contents`), how requests are sent and repeated (`exchange`), their
messages (`requests`), the meaning of errors (`outcomes`) and how calls wait (`calls`).
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

from kclient.config import ProducerConfig
from kclient.errors import (
    ClosedError,
    InvalidTxnStateError,
    KafkaError,
    ProtocolError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from kclient.net.manager import Request
from kclient.producer.idempotence import Identity
from kclient.producer.transactions.contents import Contents
from kclient.producer.transactions.exchange import Exchange
from kclient.producer.transactions.interfaces import PendingCall, TransactionNodes
from kclient.producer.transactions.outcomes import Api, Kind, abortable, copied, fatal, kind_of, marked
from kclient.producer.transactions.requests import (
    CommitOffsetsStep,
    EndStep,
    InitStep,
    ProducerIdentity,
    Step,
)
from kclient.producer.transactions.states import (
    STATES,
    TransactionCall,
    TransactionEvent,
    TransactionState,
    illegal_call,
    unrepeated_call,
)
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, PreparedTransaction, TopicPartition

FEATURE = "transaction.version"

S = TransactionState
_SENDING = (S.IN_TRANSACTION, S.PREPARING, S.COMMITTING)

_log = logging.getLogger(__name__)


class TransactionManager:
    """The transactions of one producer.

    Parameters:
        config: the producer's options, with a transactional_id.
        nodes: the connections.
        identity: the producer id and epoch, which the coordinator assigns.
        all_settled: whether every batch is settled and every Produce request answered.
        on_change: called when waiting calls should check again.
        on_open: called with whether records may be sent from now on.
        on_fatal: called with the fatal error.
        random: for jitter.

    Attributes:
        state: the producer's state.
        error: the error that led to an error state.
        is_v2: whether the current or next transaction uses version 2.
    """

    def __init__(
        self,
        config: ProducerConfig,
        nodes: TransactionNodes,
        identity: Identity,
        *,
        all_settled: Callable[[], bool],
        on_change: Callable[[], None],
        on_open: Callable[[bool], None],
        on_fatal: Callable[[KafkaError], None],
        random: random.Random,
    ) -> None:
        assert config.transactional_id is not None
        self.transactional_id = config.transactional_id
        self.state = S.UNINITIALIZED
        self.error: KafkaError | None = None
        self.is_v2 = False
        self._config = config
        self._nodes = nodes
        self._identity = identity
        self._all_settled = all_settled
        self._on_change = on_change
        self._on_open = on_open
        self._on_fatal = on_fatal
        self._lock = threading.RLock()
        self._exchange = Exchange(config, nodes, self, self._lock, random=random)
        self.retry_seconds = self._exchange.retry_seconds
        self._pending: PendingCall | None = None
        self._contents = Contents()

    # -- calls (application threads)

    def initialize(self) -> PendingCall:
        """See Producer.init_transactions."""
        with self._lock:
            repeated = self._check(TransactionCall.INIT)
            if repeated is not None:
                return repeated
            self._exchange.coordinator.want()
            return self._start(TransactionCall.INIT)

    def begin(self) -> None:
        """See Producer.begin_transaction."""
        with self._lock:
            self._check(TransactionCall.BEGIN)
            self._change(TransactionCall.BEGIN)

    def check_send(self) -> None:
        """Raise unless records may be sent."""
        with self._lock:
            self._check(TransactionCall.SEND)

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> PendingCall:
        """See Producer.send_offsets_to_transaction."""
        with self._lock:
            self._check(TransactionCall.SEND_OFFSETS)
            call = PendingCall(TransactionCall.SEND_OFFSETS)
            if not offsets:
                call.end()
                return call
            step = CommitOffsetsStep(self._producer(), offsets, group, is_v2=self.is_v2)
            self._exchange.coordinator_for(step).want()
            self._contents.add_offsets(step, call)
            return call

    def prepare(self) -> PendingCall:
        """See Producer.prepare_transaction."""
        return self._begin_end(TransactionCall.PREPARE)

    def commit(self) -> PendingCall:
        """See Producer.commit_transaction."""
        return self._begin_end(TransactionCall.COMMIT)

    def abort(self) -> PendingCall:
        """See Producer.abort_transaction."""
        with self._lock:
            repeated = self._check(TransactionCall.ABORT)
            if repeated is not None:
                return repeated
            pending = self._start(TransactionCall.ABORT)
            self._drop_steps(self._aborted())
            return pending

    def close(self) -> PendingCall | None:
        """Abort an open transaction; return the call that the end of the producer should wait for, if any."""
        with self._lock:
            pending = self._pending
            if STATES.allows(self.state, TransactionCall.ABORT):
                if pending is not None:
                    pending.end(ClosedError("the producer was closed, and the transaction aborted"))
                return self.abort()
            return pending if self.state in (S.COMMITTING, S.ABORTING) else None

    def last_error(self) -> KafkaError | None:
        """Return why the current step has not succeeded yet; None if nothing failed."""
        return self._exchange.last_error

    def _begin_end(self, call: TransactionCall) -> PendingCall:
        with self._lock:
            repeated = self._check(call)
            if repeated is not None:
                return repeated
            return self._start(call)

    def _start(self, call: TransactionCall) -> PendingCall:
        # In this order: after a Ctrl-C in between, the same call makes it again or waits for it.
        self._pending = pending = PendingCall(call)
        self._change(call)
        return pending

    def _check(self, call: TransactionCall) -> PendingCall | None:
        """Raise unless the state allows the call; return the same call made before, if its result was not returned
        yet.
        """
        error = None if self.error is None else copied(self.error)
        if error is not None and self.state is S.FATAL_ERROR:
            raise error
        pending = self._pending
        started = pending is not None and (pending.done or not STATES.allows(self.state, pending.call))
        if pending is not None and started and not pending.seen and pending.error is None:
            if pending.call is call:
                return pending
            if pending.done:
                raise unrepeated_call(call, pending.call, self.transactional_id)
        if error is not None and call is not TransactionCall.ABORT:
            raise error
        if not STATES.allows(self.state, call):
            raise illegal_call(call, self.state, self.transactional_id)
        if pending is not None:
            # Only a prepare_transaction without a result, which an abort overtakes.
            pending.end(self._aborted())
        self._pending = None
        return None

    # -- what the sender asks and tells (network thread)

    @property
    def waits_for_batches(self) -> bool:
        """Whether the transaction ends as soon as its batches are delivered."""
        return self.state is S.COMMITTING or self.state is S.PREPARING

    def why_not_sending(self) -> KafkaError | None:
        """Return why batches that wait cannot be sent in any transaction; None where they may be."""
        return None if self.state in _SENDING or self.state is S.FATAL_ERROR else self._aborted()

    def may_send(self, topic: str, partition: int) -> bool:
        """Return whether batches of a partition may be sent now; if not, add the partition."""
        with self._lock:
            if self.state not in _SENDING or isinstance(self._exchange.step, EndStep):
                return False
            return self.is_v2 or self._contents.has(TopicPartition(topic, partition), self._exchange.step)

    def sending(self) -> None:
        """Note that a Produce request is being made."""
        if self.is_v2:
            self._contents.started = True

    def batch_failed(self, error: BaseException) -> None:
        """Note a batch that was given up: the transaction can no longer be committed."""
        with self._lock:
            if self.state not in _SENDING or isinstance(self._exchange.step, EndStep):
                return
            if isinstance(error, KafkaError) and kind_of(Api.PRODUCE, error) is Kind.FATAL:
                self.fail(fatal(error, self.transactional_id))
            else:
                self._to_abortable(error)

    def fail(self, error: KafkaError) -> None:
        """Enter the fatal error state."""
        with self._lock:
            if self.state is S.FATAL_ERROR:
                return
            _log.error("the transactional producer %r failed: %s", self.transactional_id, error)
            self._change(TransactionEvent.FAIL_FATALLY, error)
            self._exchange.step = None
            self._drop_steps(error)
            self._end_pending(error)
        self._on_fatal(error)

    # -- requests (network thread; see `exchange.Steps`)

    def poll(self, requests: list[Request], now: float) -> float:
        """Add the request that is due, and coordinator lookups; return when to check again."""
        with self._lock:
            deadline = self._exchange.poll(requests, now)
            return now if self.state is S.FATAL_ERROR else deadline

    def next_step(self) -> Step | None:
        """Return the next step, in order: partitions, offsets, and last the end."""
        if self.state is S.INITIALIZING:
            # init_transactions fences the producer that has the transactional id now; between two transactions, the
            # same producer only gets its next epoch.
            is_call = self._pending is not None and self._pending.call is TransactionCall.INIT
            producer = ProducerIdentity(self.transactional_id, -1, -1) if is_call else self._producer()
            return InitStep(producer, self._config.transaction_timeout_ms)
        if self.state in _SENDING:
            step = self._contents.next_step(self._producer(), is_v2=self.is_v2)
            if step is not None:
                return step
        if self.state not in (S.PREPARING, S.COMMITTING, S.ABORTING) or not self._all_settled():
            return None
        if self.state is S.PREPARING:
            self._prepared()
            return None
        if not self._contents.started:
            # The coordinator does not know the transaction, and would refuse to end it.
            self._ended()
            return self.next_step()
        return EndStep(self._producer(), commit=self.state is S.COMMITTING, is_v2=self.is_v2)

    def begun(self, step: Step) -> None:
        """Note that a step was sent, perhaps again."""
        self._contents.begun(step)

    def gives_up(self, step: Step) -> bool:
        """Return whether a step without success is not retried, because the transaction is to be aborted."""
        if self.state in _SENDING or isinstance(step, InitStep | EndStep):
            return False
        return self._contents.gives_up(step)

    def done(self, step: Step, response: Any) -> None:
        """Handle the response of a successful step."""
        if isinstance(step, InitStep):
            self._identity.assign(response.producer_id, response.producer_epoch)
            self._update_version()
            _log.info(
                "the transactional id %r has producer id %d and epoch %d",
                self.transactional_id,
                response.producer_id,
                response.producer_epoch,
            )
            self._ready(TransactionEvent.INITIALIZED)
        elif not isinstance(step, EndStep):
            self._contents.added(step)
            self._on_change()
        elif step.api is Api.END_V2 and response.producer_id < 0:
            self.fail(marked(ProtocolError("the broker's response has no next epoch", api="EndTxn"), is_fatal=True))
        else:
            if response.producer_id >= 0:
                self._identity.assign(response.producer_id, response.producer_epoch)
            self._ended()

    def _ended(self) -> None:
        """Handle the end of the transaction."""
        was_v2 = self.is_v2
        self._update_version()
        needs_epoch = not was_v2 and (self.is_v2 or self._contents.needs_epoch or self._identity.is_broken)
        self._contents = Contents()
        if needs_epoch:
            if self._pending is not None:
                self._pending.is_decided = self.state is S.COMMITTING
            self._change(TransactionEvent.ENDED_WITHOUT_EPOCH)
        else:
            self._ready(TransactionEvent.ENDED)

    def _ready(self, event: TransactionEvent) -> None:
        self._change(event)
        self._end_pending(None)

    def _prepared(self) -> None:
        if not self._contents.started:
            text = "nothing was sent in the transaction, so there is nothing to prepare: abort it"
            self._to_abortable(TransactionAbortableError(text))
            return
        assert self._pending is not None
        self._pending.prepared = PreparedTransaction(*self._producer())
        self._contents = Contents()
        self._change(TransactionEvent.HANDED_OVER)
        self._end_pending(None)

    def failed(self, step: Step, kind: Kind, error: KafkaError) -> None:
        """Handle the final failure of a step."""
        if kind is Kind.REFUSED:
            self._change(TransactionEvent.REFUSED)
            self._end_pending(marked(error))
        elif isinstance(error, InvalidTxnStateError) and isinstance(step, EndStep) and self._contents.may_be_unknown:
            # No request that could have begun the transaction took effect.
            self._ended()
        elif kind in (Kind.FENCED, Kind.FATAL) or (isinstance(step, EndStep) and not step.commit):
            # After an abort that failed there is nothing left to try.
            self.fail(fatal(error, self.transactional_id, kind))
        else:
            self._contents.failed(step)
            self._contents.needs_epoch |= kind is Kind.NEW_EPOCH
            if self.state in _SENDING:
                self._to_abortable(error)

    def _to_abortable(self, error: BaseException) -> None:
        self._change(TransactionEvent.FAIL, abortable(error))
        _log.info("the transaction of %r can only be aborted: %s", self.transactional_id, self.error)
        self._drop_steps(self.error)
        self._end_pending(self.error)

    def _drop_steps(self, error: KafkaError | None) -> None:
        """Do nothing after the current step."""
        self._exchange.drop()
        self._contents.drop(error)
        self._on_change()

    # -- small parts

    def _producer(self) -> ProducerIdentity:
        return ProducerIdentity(self.transactional_id, self._identity.producer_id, self._identity.epoch)

    def _update_version(self) -> None:
        is_v2 = self._nodes.feature_level(FEATURE) >= 2
        if is_v2 != self.is_v2:
            _log.info("%r uses version %d of transactions", self.transactional_id, 2 if is_v2 else 1)
        self.is_v2 = is_v2

    def _aborted(self) -> KafkaError:
        made = TransactionAbortedError(f"the transaction can only be aborted: {self.error}" if self.error else None)
        made.__cause__ = self.error
        return made

    def _end_pending(self, error: KafkaError | None) -> None:
        if self._pending is not None:
            self._pending.end(error)
        self._on_change()

    def _change(self, event: TransactionCall | TransactionEvent, error: KafkaError | None = None) -> None:
        state = STATES.next_state(self.state, event, repr(self.transactional_id))
        _log.debug("%r changes from %s to %s", self.transactional_id, self.state.value, state.value)
        self.state = state
        self.error = error
        self._on_open(state is S.IN_TRANSACTION)
