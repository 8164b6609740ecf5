"""Processes that copy a topic with transactions (`copier`), and what kills them: themselves, their rivals, the broker.

However often that is, the copy has each record once, in the order of its partition, for a reader of what is committed.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from kclient import Admin, Consumer, NewTopic, Producer, TopicPartition
from kclient.admin import OffsetSpec
from kclient.records import COMMIT, parse_control_record, read_batches
from tests.interop.copies import BROKER_FAILED, FENCED, GROUP, SOURCE, TARGET
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster, free_ports
from tests.support.patience import PROCESS
from tests.support.reading import read_up_to
from tests.support.waiting import wait_until

PARTITIONS = 3
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    # A member that was killed and has no successor of its name holds its partitions so long.
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "auto.create.topics.enable": "false",
}
BETWEEN = 0.1
"""Seconds after which a program that the test waits for gets some more records."""
EVERY_TENTH, FIRST_OF_THEM = 10, 3
"""Rounds in which the broker is killed as well."""


class Victim(Protocol):
    """A broker that can be killed."""

    data: Path
    fencing: tuple[int, ...]
    """Statuses of a process whose place another one has taken."""

    @property
    def bootstrap_servers(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...


class Refbroker:
    """`refbroker run`, at the same port in the same folder again and again; a context manager."""

    fencing: tuple[int, ...] = (FENCED,)

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._port = free_ports(1)[0]
        self.bootstrap_servers = f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        self._process = BrokerProcess(self.data, port=self._port, settings=SETTINGS)
        self._process.__enter__()

    def kill(self) -> None:
        self._process.stop(kill=True)


class Kafka(KafkaCluster):
    """One node of Apache Kafka."""

    # A commit that comes in the moment in which the next producer's InitProducerId fences this one: the coordinator
    # would prepare a transition while another one is pending, and answers UNKNOWN_SERVER_ERROR.
    fencing: tuple[int, ...] = (FENCED, BROKER_FAILED)

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, config=SETTINGS)
        self.data = self.data_directory()

    def start(self, node: int = 1) -> None:
        super().start(node)

    def kill(self) -> None:
        self.stop(1, kill=True)


class Process:
    """A copier, and what it has said."""

    def __init__(self, folder: Path, kind: str, broker: Victim, instance: str, seed: int) -> None:
        self.instance = instance
        self._fencing = broker.fencing
        self._said, self._complaints = folder / f"copier-{seed}.out", folder / f"copier-{seed}.err"
        with open(self._said, "wb") as said, open(self._complaints, "wb") as complaints:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.interop.copier", kind, broker.bootstrap_servers, instance, str(seed)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=complaints,
            )

    def said(self) -> Counter[str]:
        return Counter(line.split(" ")[0] for line in self._said.read_text().splitlines())

    def is_fenced(self) -> bool:
        """Whether it has ended because another has its place; that it ended for another reason is a mistake."""
        status = self._process.poll()
        if status in self._fencing:
            return True
        assert status in (None, -signal.SIGKILL), f"it ended with {status}:\n{self._complaints.read_text()}"
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Play:
    """Rounds of killing, and what came of them.

    Parameters:
        broker: which runs.
        kind: the copier's kind.
        folder: for what the processes say.

    Attributes:
        counts: how often what happened.
    """

    def __init__(self, broker: Victim, kind: str, folder: Path, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._broker, self._kind, self._folder, self._rng = broker, kind, folder, rng
        self._running: list[Process] = []
        self._sent = [0] * PARTITIONS

    def run(self, kills: int) -> None:
        address = self._broker.bootstrap_servers
        with Admin(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic(name, num_partitions=PARTITIONS) for name in (SOURCE, TARGET)])
        with Producer(bootstrap_servers=address, delivery_timeout_ms=10**6) as feeder, self._cleared_away():
            for number in range(kills):
                self._feed(feeder, self._rng.randrange(100, 400))
                self._round(feeder, number)
            feeder.flush()
            self._start("main")
            wait_until(self._all_is_copied, PROCESS)
            self._end_all()
        self._check()

    @contextmanager
    def _cleared_away(self) -> Iterator[None]:
        try:
            yield
        finally:
            for process in self._running:
                process.kill()

    def _feed(self, feeder: Producer, count: int) -> None:
        for _ in range(count):
            partition = self._rng.randrange(PARTITIONS)
            feeder.send(SOURCE, b"%d" % self._sent[partition], partition=partition)
            self._sent[partition] += 1

    def _start(self, instance: str) -> Process:
        self.counts["processes"] += 1
        seed = self.counts["processes"]
        self._running.append(Process(self._folder, self._kind, self._broker, instance, seed))
        return self._running[-1]

    def _round(self, feeder: Producer, number: int) -> None:
        rng = self._rng
        process = self._start("main")
        if number == 1 or rng.random() < 0.25:
            process = self._rival(feeder, process)
        self._wait(feeder, process)
        if number % EVERY_TENTH == FIRST_OF_THEM:
            self.counts["kills of the broker"] += 1
            self._broker.kill()
            survives = rng.random() < 0.5
            if not survives:
                self._end_all()
            self._broker.start()
            if survives:
                self._wait_for_commits(feeder, process, 1)
        self._end_all()

    def _rival(self, feeder: Producer, first: Process) -> Process:
        """Start another with the same transactional id, and the same or another name in the group; who is left."""
        self._wait(feeder, first)
        rival = self._start(self._rng.choice(["main", "rival"]))
        self.counts["rivals"] += 1
        if self._rng.random() < 0.75:
            # It is the first one that goes, unless that one was slower to take the id.
            self._feed_until(feeder, lambda: first.is_fenced() or rival.is_fenced())
        return first if rival.is_fenced() else rival

    def _wait(self, feeder: Producer, process: Process) -> None:
        """Until a random moment: while it starts, or after some commits."""
        if self._rng.random() < 0.2:
            time.sleep(self._rng.uniform(0, 1))
            return
        self._wait_for_commits(feeder, process, self._rng.randrange(6))
        time.sleep(self._rng.uniform(0, 0.05))

    def _wait_for_commits(self, feeder: Producer, process: Process, more: int) -> None:
        wanted = process.said()["committed"] + more
        self._feed_until(feeder, lambda: process.is_fenced() or process.said()["committed"] >= wanted)

    def _feed_until(self, feeder: Producer, condition: Callable[[], bool]) -> None:
        """Keep enough records for every program, and not so many that the last one is late."""
        due = time.monotonic()

        def fed() -> bool:
            nonlocal due
            if time.monotonic() >= due:
                self._feed(feeder, PARTITIONS)
                due += BETWEEN
            return condition()

        wait_until(fed, PROCESS)

    def _end_all(self) -> None:
        for process in self._running:
            if process.is_fenced():
                self.counts["fenced"] += 1
            else:
                self.counts["kills"] += 1
            process.kill()
            said = process.said()
            self.counts["commits said"] += said["committed"]
            self.counts["aborts said"] += said["aborted"]
        self._running.clear()

    def _all_is_copied(self) -> bool:
        for process in self._running:
            assert not process.is_fenced()
        with Admin(bootstrap_servers=self._broker.bootstrap_servers) as admin:
            committed = admin.list_group_offsets(GROUP)[GROUP]
        copied = {place.partition: each.offset for place, each in committed.items() if each is not None}
        return [copied.get(number, 0) for number in range(PARTITIONS)] == self._sent

    # What there is in the end

    def _check(self) -> None:
        address = self._broker.bootstrap_servers
        places = [TopicPartition(TARGET, number) for number in range(PARTITIONS)]

        def ends(level: str) -> list[int]:
            with Admin(bootstrap_servers=address) as admin:
                found = admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST), isolation_level=level)
            return [found[place].offset for place in places]

        # No transaction is open now.
        wait_until(lambda: ends("read_committed") == ends("read_uncommitted"))
        assert self._read(places, "read_committed") == [list(range(count)) for count in self._sent]
        everything = self._read(places, "read_uncommitted")
        self.counts["records"] = sum(self._sent)
        self.counts["records of aborted transactions"] = sum(map(len, everything)) - sum(self._sent)
        self._count_markers()

    def _read(self, places: list[TopicPartition], level: str) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in places]
        with Consumer(
            bootstrap_servers=self._broker.bootstrap_servers, auto_offset_reset="earliest", isolation_level=level
        ) as consumer:
            consumer.assign(places)
            for record in read_up_to(consumer, consumer.end_offsets(places)):
                found[record.partition].append(int(record.value or b""))
        return found

    def _count_markers(self) -> None:
        for log in self._broker.data.glob(f"{TARGET}-*/*.log"):
            for batch in read_batches(log.read_bytes()):
                if batch.is_control:
                    (record,) = batch.records()
                    committed = parse_control_record(record).type == COMMIT
                    self.counts["commit markers" if committed else "abort markers"] += 1


BROKERS: dict[str, Callable[[Path], Refbroker | Kafka]] = {"refbroker": Refbroker, "kafka": Kafka}
