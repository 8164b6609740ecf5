"""A stand-in for Spark that runs batches of tasks, and dies or fails at any call of a producer or an admin client.

It keeps of Spark what the protocol rests on: a batch is planned once and repeated after a restart, with another run
id; Spark's note that it is done comes after `commit`; a task that failed is tried again with another attempt number, in
another process; `abort` follows a `commit` that failed.
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
from kclient.spark.exactly_once import Place, Settings, Written, abort, commit, write_task
from kclient.spark.exactly_once.clients import TIMEOUT, Clients
from kclient.types import OffsetAndMetadata, TopicPartition

Rows = list[list[list[bytes]]]
"""By batch and task."""

ATTEMPTS = 2
OVER = 60.0
"""Seconds after which a transaction that times out is over; brokers look for such ones every ten seconds."""

_runs = itertools.count(1)


class Killed(BaseException):
    """The process is dead: none of its code runs, not even handlers."""


class Failed(KafkaError, name="FAILED"):
    """Record that a call failed; its caller continues."""


class Chance:
    """Decides at which call what happens.

    Parameters:
        at: the number of the step; a call has one before it takes effect and one after.
        name: the step's name in place of its number; the first of that name.
        error: what is raised then; after Killed every later call raises it, too.

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
        # Transactions are completed by several threads at the same time: one of them is the first.
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
    """The clients of one process; what it leaves behind when it dies stays as it is until the end of the test."""

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
                # A successor took the id of a dead process before all that it had sent had arrived.
                pass


class Query:
    """A query, its checkpoint, and what it was to write.

    Attributes:
        done: how many batches Spark has noted as done.
        settings: what it writes with.
    """

    def __init__(self, servers: str, topic: str, name: str, rows: Rows, **options: Any) -> None:
        client = {"bootstrap.servers": servers, **options.pop("client", {})}
        self.settings = Settings(client=client, query=name, decision_topic=topic, **options)
        self.rows = rows
        self.topic = topic
        self.done = 0
        self._processes: list[Process] = []

    def take_time(self) -> None:
        """Let transactions from now on have the longest timeout there is."""
        client = {name: value for name, value in self.settings.client.items() if name != TIMEOUT}
        self.settings = msgspec.structs.replace(self.settings, client=client)

    def process(self, chance: Chance | None = None) -> Clients:
        self._processes.append(Process(chance or Chance()))
        return self._processes[-1].clients

    def send(self, producer: Producer, rows: Iterator[bytes]) -> int:
        return len([producer.send(self.topic, row) for row in rows])

    def task(self, batch: int, partition: int, run: str, clients: Clients, attempt: int = 0) -> Written:
        rows = self.rows[batch][partition]
        return write_task(self.settings, Place(batch, run, partition, attempt), rows, self.send, lambda row: 1, clients)

    def run(self, chance: Chance | None = None, run: str | None = None) -> None:
        """Run until all batches are done, the query fails or the whole application dies.

        Parameters:
            run: the run's id; None makes one.
        """
        chance = chance or Chance()
        run = run or f"run{next(_runs)}"
        executor, driver = self.process(chance), self.process(chance)
        for batch in range(self.done, len(self.rows)):
            written: list[Written | None] = [None] * len(self.rows[batch])
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

    def _try_task(self, batch: int, partition: int, run: str, executor: Clients, chance: Chance) -> Written:
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
    """A query that writes to a new topic."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, partitions)])
    made = Query(servers, topic, f"q-{topic}", rows, **options)
    try:
        yield made
    finally:
        made.end()


def prepared_by_all(written: Query, batch: int, run: str) -> list[Written]:
    """What the tasks of a batch tell, with nothing decided yet."""
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
    """All that the query's group has committed, once its decision is visible.

    The marker that makes it so is written after the commit was answered. Asked for all, a broker omits what is
    pending; asked for by name, it says so.
    """
    group, first = written.settings.group, TopicPartition(written.settings.decision_topic, 0)
    with Admin(bootstrap_servers=servers) as admin:
        admin.list_group_offsets({group: [first]}, require_stable=True)
        return admin.list_group_offsets(group, require_stable=True)[group]
