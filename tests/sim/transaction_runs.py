"""Seeded runs of programs that read, compute and write in transactions, while everything around them fails.

Each program has a transactional id, a group of the same name, and an input whose records are just numbers. It continues
from the committed offset, as long as it lives; others take its place, also while it still lives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kclient.errors import KafkaError, KafkaTimeoutError
from kclient.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tests.sim.ledger import Entry, Ledger, Reported
from tests.sim.transaction_broker import SimulatedBroker
from tests.sim.transaction_clients import Program, SimulatedAdmin, TransactionalProducer, Wait, never
from tests.support.engines.network import NO_FAULTS, Faults, Simulation
from tests.support.transaction_harness import DATA

STEP = 0.5
"""Seconds that the network continues for, at most, before the broker's event loop takes some turns."""
ACTIVE = 25.0
"""Seconds after which the programs stop, if they have not made their transactions before."""
QUIET = 90.0
"""Seconds within which everything has to end once nothing fails."""
TIMEOUT_MS = 6_000

STORM = Faults(
    refuse=0.03,
    lose_request=0.01,
    lose_answer=0.03,
    cut_before=0.02,
    cut_after=0.03,
    late=0.03,
    late_delay=(0.3, 8.0),
    stalls=True,
)
IN_ORDER = STORM._replace(outlives=False)
"""Before version 2 of transactions what is late must not outlive its connection: nothing tells it from what is new."""


class Application:
    """One life of a program.

    Attributes:
        producer: its own.
        ended: whether it is over.
    """

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name
        self.ended = False
        self._is_due = False
        self._wait: Wait | None = None
        simulation = run.simulation
        self.producer = TransactionalProducer(
            simulation,
            self.wake,
            transactional_id=name,
            transaction_timeout_ms=TIMEOUT_MS,
            delivery_timeout_ms=4_000,
            linger_ms=simulation.random.choice((0, 5)),
            batch_size=simulation.random.choice((100, 1000)),
        )
        self.transactions = self.producer.transactions
        self._program = self._live()
        self.wake()

    # Waiting

    def wake(self) -> None:
        """Let it look again soon."""
        if not self._is_due:
            self._is_due = True
            self.run.simulation.later(0.0, self._continue)

    def _continue(self) -> None:
        self._is_due = False
        now = self.run.simulation.now
        if self.ended or (self._wait is not None and not (self._wait.condition() or now >= self._wait.deadline)):
            return
        try:
            self._wait = next(self._program)
        except StopIteration:
            self.die()
            return
        if self._wait.condition():
            self.wake()
        else:
            self.run.simulation.at(self._wait.deadline, self._continue)

    def die(self) -> None:
        """As when its process is killed."""
        if not self.ended:
            self.ended = True
            self._program.close()
            self.producer.drop()

    # The program

    def _live(self) -> Program:
        try:
            yield from self._repeat(self.transactions.initialize)
            while not self.run.is_over:
                position = yield from self.producer.committed(self.name)
                yield from self._work(position)
        except KafkaError as error:
            self.run.heard(error)

    def _repeat(self, make: Callable[[], Any]) -> Program:
        """Make a call again as long as its time runs out."""
        for _ in range(50):
            try:
                return (yield from self.producer.call(make))
            except KafkaTimeoutError:
                continue
        raise AssertionError(f"{make} does not end: {self.transactions.state}, {self.transactions.error!r}")

    def _work(self, position: int) -> Program:
        """Some transactions, until one of them does not end well."""
        while not self.run.is_over:
            end = position + self.run.simulation.random.randint(0, 4)
            entry = self.run.ledger.begin(self.name, position, end)
            try:
                committed = yield from self._transact(entry)
            except KafkaError as error:
                self.run.heard(error)
                if not error.abortable:
                    raise
                yield from self._abort(entry)
                return
            if not committed:
                return
            position = end

    def _transact(self, entry: Entry) -> Program:
        """Make one transaction; returns whether to continue behind it."""
        rng = self.run.simulation.random
        self.transactions.begin()
        first_offsets = rng.random() < 0.3
        if first_offsets:
            yield from self._send_offsets(entry)
        for _ in range(rng.randint(1, 3)):
            for _ in range(rng.choice((1, 2, 5))):
                partition = rng.randrange(2)
                self.producer.send(entry.value(partition), partition)
            yield from self._pause(rng.choice((0.0, 0.0, 0.002, 0.02, rng.random())))
            if not self.run.calm and rng.random() < 0.02:
                yield from self._pause(TIMEOUT_MS / 1000 + 3)
        if not first_offsets:
            yield from self._send_offsets(entry)
        how = rng.random()
        if how < 0.15:
            yield from self._abort(entry)
            return False
        if how < 0.3:
            return (yield from self._hand_over(entry, commit=rng.random() < 0.7))
        # Reported before the call: a program that is killed during it cannot report its end.
        self.run.ledger.report(entry, Reported.UNKNOWN)
        yield from self._repeat(self.transactions.commit)
        self.run.ledger.report(entry, Reported.COMMITTED)
        self.run.committed += 1
        return True

    def _send_offsets(self, entry: Entry) -> Program:
        if entry.end == entry.begin:
            return
        offsets = {TopicPartition(DATA, 0): OffsetAndMetadata(entry.end)}
        group = ConsumerGroupMetadata(self.name)
        try:
            yield from self.producer.call(lambda: self.transactions.send_offsets(offsets, group))
        except KafkaTimeoutError:
            return  # it continues, and the commit waits for it

    def _pause(self, seconds: float) -> Program:
        if seconds:
            yield Wait(never, self.run.simulation.now + seconds)

    def _abort(self, entry: Entry) -> Program:
        yield from self._repeat(self.transactions.abort)
        self.run.ledger.report(entry, Reported.ABORTED)

    def _hand_over(self, entry: Entry, *, commit: bool) -> Program:
        """Prepare, and have it ended elsewhere, perhaps twice; then start again."""
        prepared = (yield from self._repeat(self.transactions.prepare)).prepared
        simulation, ledger = self.run.simulation, self.run.ledger
        if commit:
            ledger.report(entry, Reported.UNKNOWN)
        for attempt in range(simulation.random.randint(1, 3)):
            try:
                yield from SimulatedAdmin(simulation, self.wake).complete(prepared, commit)
            except KafkaTimeoutError:
                continue
            except KafkaError as error:
                self.run.heard(error, "complete: ")
                break
            ledger.report(entry, Reported.COMMITTED if commit else Reported.ABORTED)
            self.run.handed_over += 1
            yield from self._check_opposite(prepared, commit, attempt)
        yield from self._repeat(self.transactions.initialize)
        return False

    def _check_opposite(self, prepared: Any, commit: bool, attempt: int) -> Program:
        """The other answer is refused, whatever has happened meanwhile."""
        if attempt:
            return
        try:
            yield from SimulatedAdmin(self.run.simulation, self.wake).complete(prepared, not commit)
        except KafkaError:
            return
        raise AssertionError(f"{prepared} was ended as commit={commit}, and then the other way as well")


class Run:
    """One seeded run: a broker, its clients and what goes wrong.

    Parameters:
        seed: repeats it.
        version: of transactions.
        power: whether kills of the broker are power failures.
        calm: nothing fails, nobody is killed, and no transaction takes too long.

    Attributes:
        is_over: whether programs stop when their transaction has ended.
        ends: how often calls failed, by the error's name.
        committed, handed_over: how many transactions were committed, or ended elsewhere.
    """

    def __init__(self, seed: int, directory: Path, *, version: int, power: bool = False, calm: bool = False) -> None:
        self.calm = calm
        self.simulation = simulation = Simulation(seed, wakes_all=False)
        self.broker = SimulatedBroker(simulation, directory, version=version, power=power)
        self.ledger = Ledger(self.broker)
        self.ends: Counter[str] = Counter()
        self.committed = self.handed_over = 0
        self.is_over = False
        self.storm = NO_FAULTS if calm else STORM if version >= 2 else IN_ORDER
        self.wanted = simulation.random.randint(2, 7)
        self.names = ["a", "b"][: simulation.random.choice((1, 1, 2))]
        if simulation.happens(0.25):
            self.broker.exhaust("a", simulation.random.choice((32_760, 32_764, 32_765)))
        self.alive: list[Application] = []

    def heard(self, error: KafkaError, call: str = "") -> None:
        """Handle an error of a program; the error itself says whether an abort helps."""
        self.ends[f"{call}{type(error).__name__}"] += 1
        assert not error.retriable, f"{error!r} is handed to a program"
        assert call or error.abortable or error.fatal, f"{error!r} is neither abortable nor fatal"

    async def go(self) -> None:
        """All of it."""
        simulation = self.simulation
        simulation.faults = self.storm
        for name in self.names:
            self.alive.append(Application(self, name))
        end = simulation.now + ACTIVE
        while simulation.now < end and self.committed + self.handed_over < self.wanted:
            await self._pass(simulation.random.random())
            if not self.calm:
                self._disturb()
            self.ledger.read()
        await self._come_to_rest()
        await self._check()

    async def _pass(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, for the network and the broker."""
        simulation, broker = self.simulation, self.broker
        end = simulation.now + seconds
        while simulation.now < end and not until():
            await broker.take_turns()
            simulation.run(min(STEP, end - simulation.now), until=lambda: broker.wants_turns or until())
        assert not broker.failures, broker.failures

    def _disturb(self) -> None:
        simulation = self.simulation
        happened = simulation.random.random()
        name = simulation.random.choice(self.names)
        mine = [one for one in self.alive if one.name == name and not one.ended]
        if happened < 0.25:
            self.broker.kill_soon()
        elif happened < 0.4:
            self.broker.elect_somewhere()
        elif happened < 0.55 and mine:
            mine[0].die()
        elif happened < 0.62 and len(self.alive) < 12:
            self.alive.append(Application(self, name))
        elif happened < 0.7:
            self.broker.stop()
        self.alive = [one for one in self.alive if not one.ended]
        for name in self.names:
            if not any(one.name == name for one in self.alive):
                self.alive.append(Application(self, name))

    async def _come_to_rest(self) -> None:
        """Nothing fails: the programs finish, what is late arrives, and what nobody ends is aborted."""
        simulation, broker = self.simulation, self.broker
        simulation.faults = NO_FAULTS
        broker.disk.spare()
        self.is_over = True
        if not self.calm and simulation.happens(0.3):
            for one in self.alive:
                one.die()
        await self._pass(QUIET, until=lambda: all(one.ended for one in self.alive))
        for one in self.alive:
            assert one.ended, f"{one.name} waits indefinitely: {one.transactions.state}, {one.transactions.error!r}"
        await self._pass(10.0)
        await self._pass(TIMEOUT_MS / 1000 + 5)

    async def _check(self) -> None:
        broker = self.broker
        assert broker.is_up
        assert not broker.open_ids(), f"open indefinitely: {broker.open_ids()}"
        assert not broker.unstable(), f"nobody can read on: {broker.unstable()}"
        committed = {name: self._committed(name) for name in self.names}
        self.ledger.check(committed)

    def close(self) -> None:
        """Release everything."""
        for one in self.alive:
            one.die()
        self.broker.shut()

    def _committed(self, name: str) -> int:
        found = self.broker.broker.groups.runtime.shard(0).offsets.of_group(name).get(DATA, {}).get(0)
        return 0 if found is None else found.offset
