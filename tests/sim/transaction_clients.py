"""Producers of transactions in the simulated network, and programs that read, compute and write with them.

A producer is made of the client's own parts: engine, accumulator, sender and transaction manager. A program is a
generator that yields what it waits for; it is gone when it is killed, wherever it is.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, NamedTuple

from kclient.admin.core import AdminCore
from kclient.admin.prepared_transactions import complete_transaction
from kclient.config import AdminConfig, ProducerConfig
from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.net.backoff import retry_backoff
from kclient.net.cluster import Cluster
from kclient.net.deadline import Deadline
from kclient.net.operation import Pause, Result
from kclient.net.requesting import Requester
from kclient.producer.batch import ProducerBatch
from kclient.producer.implementation import Accumulator
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.result import BatchResult
from kclient.producer.transactions.interfaces import PendingCall
from kclient.producer.wiring import wire_sender
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.records import BatchBuilder
from kclient.types import PreparedTransaction
from tests.sim.transaction_broker import HOST
from tests.support.engines.network import Simulation
from tests.support.transaction_harness import DATA
from tests.support.typed import must

NODE = 1
CALL_SECONDS = 8.0
"""How long a program waits for a call; what does not end by then it makes again."""
OPTIONS: dict[str, Any] = {
    "bootstrap_servers": f"{HOST}:9092",
    "request_timeout_ms": 1_000,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "socket_connection_setup_timeout_ms": 1_000,
}


class Wait(NamedTuple):
    """What a program waits for, and until when."""

    condition: Callable[[], bool]
    deadline: float


Program = Generator[Wait, None, Any]


def never() -> bool:
    return False


class Outlet:
    """Where a producer's batches are settled."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self._wake = wake

    def settled(self, result: BatchResult, callbacks: list[Any]) -> None:
        self._wake()

    def call_back(self, future: Any, callback: Callable[[Any], None]) -> None:
        callback(future)

    def check_usable(self) -> None:
        return None


class SimulatedProducer:
    """One producer, which is not transactional.

    Parameters:
        wake: called when a program that waits should look again.
        options: those of the producer.
    """

    def __init__(self, simulation: Simulation, wake: Callable[[], None], **options: Any) -> None:
        self.config = config = ProducerConfig.from_options({**OPTIONS, **options})
        self.simulation = simulation
        self.engine = simulation.engine(config)
        self._outlet = Outlet(wake)
        self._seconds = config.delivery_timeout_ms / 1000
        self.accumulator = Accumulator(
            self._open_batch,
            self.engine.wakeup,
            buffer_memory=config.buffer_memory,
            batch_size=config.batch_size,
            max_request_size=config.max_request_size,
            linger=config.linger_ms / 1000,
            time_ms=lambda: int(simulation.now * 1000),
            ignore_keys=False,
            seed=1,
        )
        numbers = random.Random(simulation.random.random())
        self._transactional = config.transactional_id is not None
        self.fatal: KafkaError | None = None
        self.parts = wire_sender(
            config,
            self.accumulator,
            self.engine.nodes,
            self.engine.metadata,
            new_batch=self._new_batch,
            on_fatal=self._failed,
            on_change=wake,
            on_open=self._opened,
            metrics=ProducerMetrics(self.engine.metrics),
            random=numbers,
        )
        self.engine.add(self.parts.sender)
        self.engine.metadata.add_listener(self._heard)
        self.engine.metadata.add_topic(DATA)

    def _open_batch(self, queue: Any) -> ProducerBatch:
        now = self.simulation.now
        return self._new_batch(queue, now, now + self._seconds, min(queue.batch_limit, queue.target))

    def _new_batch(self, queue: Any, created: float, deadline: float, limit: int) -> ProducerBatch:
        builder = BatchBuilder(self.config.compression_type, max_bytes=limit)
        return ProducerBatch(queue, builder, created, deadline, self._outlet, self._transactional)

    def _opened(self, is_open: bool) -> None:
        self.accumulator.usable = is_open

    def _failed(self, error: KafkaError) -> None:
        self.fatal = error
        self.accumulator.usable = False

    def _heard(self, cluster: Cluster) -> None:
        for name, info in cluster.topics.items():
            if info.partitions:
                queue = self.accumulator.add_topic(name, len(info.partitions))
                queue.offer([one.partition for one in info.partitions])

    def send(self, value: bytes, partition: int) -> Any:
        """The record's future."""
        future = self.accumulator.try_append(DATA, value, partition=partition, timestamp=1)
        assert future is not None, "a record was refused"
        return future

    def drop(self) -> None:
        """As when the process is killed."""
        self.simulation.drop(self.engine)


class TransactionalProducer(SimulatedProducer):
    """One transactional producer.

    Attributes:
        transactions: its transaction manager.
    """

    def __init__(self, simulation: Simulation, wake: Callable[[], None], **options: Any) -> None:
        super().__init__(simulation, wake, **options)
        assert self.parts.transactions is not None
        self.transactions = self.parts.transactions
        self.accumulator.usable = False

    def send(self, value: bytes, partition: int) -> Any:
        """The record's future.

        Raises:
            KafkaError: the transaction can no longer take it.
        """
        if not self.accumulator.usable:
            self.transactions.check_send()
        return super().send(value, partition)

    def call(self, make: Callable[[], PendingCall], seconds: float = CALL_SECONDS) -> Program:
        """Make a call and wait for it, as `TransactionCalls` does; returns it.

        Raises:
            KafkaError: it failed, or did not end in time.
        """
        pending = make()
        self.engine.wakeup()
        yield Wait(lambda: pending.done, self.simulation.now + seconds)
        if not pending.done:
            raise KafkaTimeoutError(f"{pending.call.value}() did not end in time")
        pending.seen = True
        if pending.error is not None:
            raise pending.error
        return pending

    def committed(self, group: str) -> Program:
        """Return the committed offset of a group, once no transaction can change it."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(name=DATA, partition_indexes=[0])
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[topic])
        request = OffsetFetchRequest(groups=[asked], require_stable=True)
        while True:
            answer = self.engine.call(NODE, OffsetFetchRequest, lambda version: request, maximum_version=9)
            answer.add_done_callback(lambda future: self._outlet._wake())
            yield Wait(answer.done, self.simulation.now + CALL_SECONDS)
            if answer.done() and answer.exception() is None:
                [found] = answer.result().groups
                if not found.error_code and not found.topics[0].partitions[0].error_code:
                    return max(found.topics[0].partitions[0].committed_offset, 0)
            elif not answer.done():
                answer.cancel()
            yield Wait(never, self.simulation.now + 0.05)


class SimulatedAdmin(AdminCore):
    """An admin client in the simulated network."""

    def __init__(self, simulation: Simulation, wake: Callable[[], None]) -> None:
        self.config = AdminConfig.from_options(OPTIONS)
        backoff = retry_backoff(self.config, random.Random(simulation.random.random()))
        Requester.__init__(self, simulation.engine(self.config), backoff, self.config.request_timeout_ms / 1000)
        self._simulation = simulation
        self._wake = wake

    def complete(self, prepared: PreparedTransaction, commit: bool) -> Program:
        """See Admin.complete_transaction; raises as it does."""
        # How long the call may take is the program's to say.
        deadline = Deadline("complete_transaction()", 2 * CALL_SECONDS, lambda: None, self.engine.clock)
        operation = complete_transaction(self, prepared, commit, deadline)
        outcome: Any = None
        failure: BaseException | None = None
        until = self._simulation.now + CALL_SECONDS
        try:
            while True:
                step = operation.send(outcome) if failure is None else operation.throw(failure)
                outcome, failure = None, None
                if isinstance(step, Pause):
                    yield Wait(never, self._simulation.now + must(step.seconds))
                elif isinstance(step, Result):
                    future: Future[Any] = step.future
                    future.add_done_callback(lambda done: self._wake())
                    yield Wait(future.done, until)
                    if not future.done():
                        raise KafkaTimeoutError("complete_transaction() did not end in time")
                    failure = future.exception()
                    outcome = None if failure is not None else future.result()
                if self._simulation.now >= until:
                    raise KafkaTimeoutError("complete_transaction() did not end in time")
        except StopIteration:
            return None
        finally:
            self._simulation.drop(self.engine)
