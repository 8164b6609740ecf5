"""A whole refbroker in the simulated network: it is killed at its writes, starts again, elects, and loads late.

The network delivers its requests without sockets; its event loop takes a few turns between the steps of the network.
Its clock follows the simulation's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kclient.protocol import Message
from refbroker.coordinators.transactions.metadata import NO_PRODUCER_ID, TransactionMetadata
from refbroker.coordinators.transactions.states import TransactionState
from refbroker.testing.control.elections import elect
from tests.sim.killing import KilledError, KillingDisk, KillingFiles
from tests.support.broker_harness import START_MS
from tests.support.engines.network import GONE, Gone, Later, Simulation
from tests.support.transaction_harness import DATA, TOPIC, TransactionHarness

OFFSETS = "__consumer_offsets"
HOST = "b"
TURNS = 12
"""More than anything takes that the broker does by itself."""
TIMEOUT_CHECKS = 1.0
"""Seconds from one look for transactions that have timed out to the next."""

FLUSH_ALL = {"log.flush.interval.messages": "1"}
SETTINGS = {
    # While the loop is paused a task could not wait; clients repeat instead.
    "add.partitions.to.txn.retry.backoff.max.ms": "0",
    "node.id": "1",
    "advertised.listeners": f"PLAINTEXT://{HOST}:9092",
}


class SimulatedBroker(TransactionHarness):
    """A broker at the host `b`, with a topic `t`.

    Parameters:
        version: of transactions.
        power: whether a kill is a power failure, too; then everything is flushed before it is answered.

    Attributes:
        starts: how often it was started.
        failures: what went wrong outside of any request, and should not have.
    """

    def __init__(self, simulation: Simulation, directory: Path, *, version: int, power: bool) -> None:
        self.simulation = simulation
        self.power = power
        self.starts = 1
        self.failures: list[Any] = []
        self.is_up = False
        self._began_at = simulation.now
        self._start_at = 0.0
        self._load_at: float | None = None
        self._check_at = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.disk: KillingFiles = KillingDisk() if power else KillingFiles()
        settings = {**SETTINGS, **(FLUSH_ALL if power else {})}
        asyncio.get_running_loop().set_exception_handler(self._heard)
        super().__init__(directory, version=version, files=self.disk, **settings)
        self._go_up()

    @property
    def wants_turns(self) -> bool:
        """Whether the event loop has something to do before the network may continue."""
        return bool(self._tasks) and self._load_at is None

    # Requests

    def answer(self, request: Message, version: int) -> Message | Later | Gone | None:
        """See `network.Answer`."""
        self._follow_clock()
        try:
            answer = self.send(request, version)
        except KilledError:
            self._go_down()
            return GONE
        if not isinstance(answer, asyncio.Task):
            found: Message | None = answer
            return found
        later = Later()
        self._tasks.add(answer)
        answer.add_done_callback(lambda task: self._answered(task, later))
        return later

    def _answered(self, task: asyncio.Task[Any], later: Later) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is None:
            later.give(task.result())

    def ask(self, request: Message, version: int) -> Any:  # type: ignore[override]
        """An answer without the network in between; None while it is down."""
        if not self.is_up:
            return None
        answer = self.answer(request, version)
        assert not isinstance(answer, Later)
        return None if answer is GONE else answer

    # Time

    def _follow_clock(self) -> None:
        late = START_MS + int((self.simulation.now - self._began_at) * 1000) - self.clock()
        if late > 0:
            self.clock.step(late)

    async def take_turns(self) -> None:
        """Let the broker do by itself what is due."""
        self._follow_clock()
        now = self.simulation.now
        if not self.is_up and now >= self._start_at:
            self._start()
        if self.is_up and self._load_at is not None:
            if now < self._load_at:
                return
            self._load_at = None
        if self.is_up and now >= self._check_at:
            self._check_at = now + TIMEOUT_CHECKS
            try:
                self.broker.transactions.abort_timed_out()
            except KilledError:
                self._go_down()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if self.is_up and self.disk.dead:
            self._go_down()

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not isinstance(context.get("exception"), KilledError):
            self.failures.append(context)

    # Life

    def _go_up(self) -> None:
        self.is_up = True
        self.simulation.brokers[HOST] = self.answer
        self._load_at = self.simulation.now + self.simulation.random.choice((0.0, 0.0, 0.3, 2.0))

    def _leave(self) -> None:
        self.is_up = False
        self.simulation.end_broker(HOST)
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._forget()

    def _go_down(self) -> None:
        assert self.disk.dead
        if self.is_up:
            self._leave()
        self.broker.logs.abandon()
        self._lose()
        self._start_at = self.simulation.now + self.simulation.uniform((0.01, 1.5))

    def _lose(self) -> None:
        """Nothing but what a killed process, or a power failure, leaves."""
        self.disk.revive()
        if isinstance(self.disk, KillingDisk):
            self.disk.lose_unflushed(self.simulation.random.randrange(1 << 30))

    def stop(self) -> None:
        """Stop it in order, unless it is killed in the midst of that; it starts again soon."""
        if not self.is_up:
            return
        self._leave()
        try:
            self.broker.logs.close(self.broker.broker_epoch)
        except KilledError:
            self._go_down()
        self._start_at = self.simulation.now + self.simulation.uniform((0.01, 1.5))

    def _start(self) -> None:
        if self.simulation.happens(self.simulation.faults.cut_before):
            self.disk.kill(self.simulation.random.randrange(30), done=self.simulation.happens(0.5))
        try:
            self.open()
        except KilledError:
            self._start_at = self.simulation.now + 0.1
            self._lose()
            return
        self.starts += 1
        self._go_up()

    def shut(self) -> None:
        """Release everything, whatever state it is in."""
        if self.is_up:
            self._forget()
        self.broker.logs.abandon()
        self.disk.revive()

    def kill_soon(self) -> None:
        """Kill it at one of its next writes."""
        self.disk.kill(self.simulation.random.randrange(40), done=self.simulation.happens(0.5))

    def elect_somewhere(self) -> None:
        """Begin a new term of a partition's leader; a coordinator loads its state again."""
        choices = [(TOPIC, 0), (OFFSETS, 0), *((DATA, number) for number in (0, 1))]
        topic, partition = self.simulation.random.choice(choices)
        if not self.is_up:
            return
        try:
            elect(self.broker, topic, partition)
        except KilledError:
            self._go_down()
        else:
            self._load_at = self.simulation.now + self.simulation.uniform((0.0, 0.6))

    # State

    def exhaust(self, transactional_id: str, producer_epoch: int) -> None:
        """Let a transactional id have had nearly all epochs of its producer id."""
        made = TransactionMetadata(
            transactional_id,
            self.broker.producer_ids.next(),
            60_000,
            self.clock(),
            producer_epoch=producer_epoch,
            previous_producer_id=NO_PRODUCER_ID,
        )
        self.broker.transactions.runtime.write(0, lambda shard: shard.store(made, None))

    def open_ids(self) -> dict[str, TransactionState]:
        """The transactional ids with a transaction that has not ended."""
        ended = (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        return {name: one.state for name, one in self.shard.transactions.items() if one.state not in ended}

    def unstable(self) -> dict[str, tuple[int, int]]:
        """Last stable offset and end of the logs where they differ."""
        logs = [self.log(DATA, number) for number in (0, 1)] + [self.log(OFFSETS)]
        return {
            f"{log.topic}-{log.partition}": (log.last_stable_offset, log.log_end_offset)
            for log in logs
            if log.last_stable_offset != log.log_end_offset
        }
