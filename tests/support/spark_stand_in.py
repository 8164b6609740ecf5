"""A stand-in for Spark that runs batches of tasks, and crashes or fails at any call of a producer or an admin client.

It behaves like Spark where the protocol depends on it: a batch is planned once and repeated after a restart, with
another run id; Spark notes the batch as done after `commit`; a failed task is run again with another attempt number, in
another process; a failed `commit` is followed by `abort`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from kclient import Admin, NewTopic, Producer
from kclient.admin import TransactionState
from kclient.errors import DeliveryError, KafkaError
from kclient.spark.exactly_once import Settings, TaskAttempt, TaskResult, abort, commit, write_task
from kclient.spark.exactly_once.clients import TIMEOUT, Clients
from kclient.types import OffsetAndMetadata, TopicPartition

Rows = list[list[list[bytes]]]
"""Values by batch and task."""

ATTEMPTS = 2
OVER = 60.0
"""Seconds after which a transaction that timed out is aborted; brokers check every ten seconds."""

_runs = itertools.count(1)


class Killed(BaseException):
    """The process is dead: none of its code runs, exception handlers included."""


class Failed(KafkaError, name="FAILED"):
    """A call failed, and the process continues."""


class Chance:
    """Decides which call fails, and how.

    Parameters:
        at: the number of the step; a call has one before it takes effect and one after.
        name: the step's name instead of its number; the first step of that name fails.
        error: what the step raises; after Killed every later call raises it, too.

    Attributes:
        steps: the steps so far, by name.
    """

    def __init__(self, at: int | None = None, error: type[BaseException] = Killed, *, name: str | None = None) -> None:
        self._at = at
        self._name = name
        self._error = error
        self.steps: list[str] = []
        self._dead = False
        self._lock = threading.Lock()

    @property
    def happened(self) -> bool:
        return self._name in self.steps or (self._at is not None and len(self.steps) > self._at)

    def step(self, name: str) -> None:
        # Several threads complete transactions at the same time; only the first call fails.
        with self._lock:
            if self._dead:
                raise Killed
            self.steps.append(name)
            if len(self.steps) - 1 == self._at or (name == self._name and self.steps.count(name) == 1):
                self._dead = self._error is Killed
                raise self._error(name)


class Watched:
    """A client whose calls are steps."""

    def __init__(self, client: Any, chance: Chance) -> None:
        self._client = client
        self._chance = chance

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self._chance.step(f"before {name}")
            result = method(*arguments, **options)
            self._chance.step(f"after {name}")
            return result

        return call


class Process:
    """The clients of one process; they stay open after it dies, until the end of the test."""

    def __init__(self, chance: Chance) -> None:
        self._opened: list[Any] = []
        self.clients = Clients(
            lambda client, **options: self._watch(Producer.from_properties(client, **options), chance),
            lambda client: self._watch(
                Admin.from_properties({"bootstrap.servers": client["bootstrap.servers"]}), chance
            ),
        )

    def _watch(self, client: Any, chance: Chance) -> Any:
        self._opened.append(client)
        return Watched(client, chance)

    def end(self) -> None:
        for client in self._opened:
            try:
                client.close(0)
            except DeliveryError:
                # A successor fenced the dead process before all of its records were delivered.
                pass


class Query:
    """A query, its checkpoint, and the rows to write.

    Attributes:
        done: how many batches Spark has noted as done.
        settings: the settings of its writes.
    """

    def __init__(self, servers: str, topic: str, name: str, rows: Rows, **options: Any) -> None:
        client = {"bootstrap.servers": servers, **options.pop("client", {})}
        self.settings = Settings(client=client, query=name, decision_topic=topic, **options)
        self.rows = rows
        self.topic = topic
        self.done = 0
        self._processes: list[Process] = []

    def take_time(self) -> None:
        """Use the longest possible transaction timeout from now on."""
        client = {name: value for name, value in self.settings.client.items() if name != TIMEOUT}
        self.settings = msgspec.structs.replace(self.settings, client=client)

    def process(self, chance: Chance | None = None) -> Clients:
        self._processes.append(Process(chance or Chance()))
        return self._processes[-1].clients

    def send(self, producer: Producer, rows: Iterator[bytes]) -> int:
        return len([producer.send(self.topic, row) for row in rows])

    def task(self, batch: int, partition: int, run: str, clients: Clients, attempt: int = 0) -> TaskResult:
        rows = self.rows[batch][partition]
        return write_task(
            self.settings, TaskAttempt(batch, run, partition, attempt), rows, self.send, lambda row: 1, clients
        )

    def run(self, chance: Chance | None = None, run: str | None = None) -> None:
        """Run until all batches are done, the query fails or the whole application dies.

        Parameters:
            run: the run's id; None makes one.
        """
        chance = chance or Chance()
        run = run or f"run{next(_runs)}"
        executor, driver = self.process(chance), self.process(chance)
        for batch in range(self.done, len(self.rows)):
            written: list[TaskResult | None] = [None] * len(self.rows[batch])
            try:
                for partition in range(len(written)):
                    written[partition] = self._try_task(batch, partition, run, executor, chance)
                commit(self.settings, batch, [one for one in written if one is not None], driver)
            except KafkaError as error:
                try:
                    abort(self.settings, batch, written, driver)
                except KafkaError as again:
                    error.add_note(f"abort: {again}")
                raise
            chance.step("before the note of the batch")
            self.done = batch + 1

    def _try_task(self, batch: int, partition: int, run: str, executor: Clients, chance: Chance) -> TaskResult:
        for attempt in range(ATTEMPTS):
            try:
                return self.task(batch, partition, run, executor, attempt)
            except Failed:
                if attempt + 1 == ATTEMPTS:
                    raise
                executor = self.process(chance)
        raise AssertionError

    def end(self) -> None:
        for process in self._processes:
            process.end()


@contextmanager
def query(servers: str, topic: str, rows: Rows, partitions: int = 2, **options: Any) -> Iterator[Query]:
    """Create a topic, and return a query that writes to it."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, partitions)])
    made = Query(servers, topic, f"q-{topic}", rows, **options)
    try:
        yield made
    finally:
        made.end()


def prepared_by_all(written: Query, batch: int, run: str) -> list[TaskResult]:
    """Run the tasks of a batch, and return their commit messages; the batch stays undecided."""
    clients = written.process()
    return [written.task(batch, partition, run, clients) for partition in range(len(written.rows[batch]))]


def batches_of(batches: int, tasks: int, rows: int = 3) -> Rows:
    return [
        [[b"%d-%d-%d" % (batch, task, row) for row in range(rows)] for task in range(tasks)] for batch in range(batches)
    ]


def expected(rows: Rows) -> list[bytes]:
    return sorted(row for batch in rows for task in batch for row in task)


def open_transactions(servers: str, query: Query) -> list[str]:
    with Admin(bootstrap_servers=servers) as admin:
        listed = admin.list_transactions(states=[TransactionState.ONGOING])
    return [name for name in listed if name.startswith(query.settings.group)]


def decided_offsets(servers: str, written: Query) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return all offsets that the query's group has committed, after its decision is visible.

    The coordinator writes the marker after it has answered the commit. OffsetFetch for all partitions omits pending
    offsets; for a named partition it returns an error while an offset is pending.
    """
    group, first = written.settings.group, TopicPartition(written.settings.decision_topic, 0)
    with Admin(bootstrap_servers=servers) as admin:
        admin.list_group_offsets({group: [first]}, require_stable=True)
        return admin.list_group_offsets(group, require_stable=True)[group]
