"""The task's part: write its rows in its own transaction, which the driver ends. Kafka only: independent of Spark.

A task first reads the decision:

    the batch is not decided    it writes, with a transactional id of the batch's parity
    the batch is decided        it commits its own transaction again, in case the driver died before, and only counts
                                its rows
    ... and its transaction is  it fails; or, if the user says that the input is repeatable, it writes its rows again,
    known to be aborted         and the driver puts that transaction in the place of the lost one

In each case it reads its rows to the end, because the driver compares their number with that of the decision. So it
does not matter what Spark does with rows that a worker leaves unread, for example for the state of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from kclient import Producer
from kclient.errors import InvalidTxnTimeoutError
from kclient.spark.exactly_once.clients import CLIENTS, Clients, timeout_refused
from kclient.spark.exactly_once.decision import Decision, Entry, read_decision
from kclient.spark.exactly_once.errors import TransactionLostError
from kclient.spark.exactly_once.recovery import commit_all, is_aborted, open_lane
from kclient.spark.exactly_once.settings import Settings, TaskAttempt, TaskResult
from kclient.types import PreparedTransaction

T = TypeVar("T")


def write_task(
    settings: Settings,
    task: TaskAttempt,
    rows: Iterable[T],
    send: Callable[[Producer, Iterator[T]], int],
    size: Callable[[T], int],
    clients: Clients = CLIENTS,
) -> TaskResult:
    """Write a task's rows, unless they are already written.

    Before the batch is decided, a task without rows only reads the decision.

    Parameters:
        rows: the rows in pieces of at least one row.
        send: sends all pieces, and returns the number of their rows.
        size: returns the number of rows of a piece.
        clients: the clients of this process.

    Returns:
        The result for the driver's `commit`.

    Raises:
        ExactlyOnceError: this run must not write, or rows that it wrote are lost.
        OptionError: transaction.timeout.ms is more than the brokers allow.
        KafkaError: the rows were not written; the transaction is aborted.
    """
    admin = clients.admin(settings)
    decision = read_decision(admin, settings)
    replaces, kept = None, None
    if decision is not None:
        decision.check_run(task.run, task.batch)
        # Its transactional id keeps its state until another one is decided, because the batch may be repeated.
        kept = decision.entry(task.partition) if (task.batch - decision.batch) % 2 == 0 else None
        if decision.batch == task.batch:
            lost = _recover(settings, decision, task.partition, clients)
            if lost is None:
                return TaskResult(task, settings.query, rows=sum(map(size, rows)))
            replaces = lost.prepared(settings, task.batch)
    pieces = iter(rows)
    first = next(pieces, None)
    if first is None:
        return TaskResult(task, settings.query, replaces=replaces)
    lane, another_is_open = open_lane(admin, settings, task, kept)
    name = settings.task_id(task.batch, task.partition, lane)
    prepared, sent = _write(settings, name, chain([first], pieces), send, clients)
    return TaskResult(task, settings.query, lane, prepared, replaces, sent, another_is_open)


def _recover(settings: Settings, decision: Decision, partition: int, clients: Clients) -> Entry | None:
    """Commit the task's transaction of a decided batch; return the entry to rewrite, if its rows are lost."""
    entry = decision.entry(partition)
    if entry is None:
        return None
    admin = clients.admin(settings)
    try:
        commit_all(admin, settings, decision, [entry])
    except TransactionLostError:
        if settings.repeatable and is_aborted(admin, entry.prepared(settings, decision.batch)):
            return entry
        raise
    return None


def _write(
    settings: Settings,
    transactional_id: str,
    pieces: Iterator[T],
    send: Callable[[Producer, Iterator[T]], int],
    clients: Clients,
) -> tuple[PreparedTransaction, int]:
    with clients.task(settings, transactional_id) as producer:
        try:
            producer.init_transactions()
        except InvalidTxnTimeoutError as error:
            raise timeout_refused(settings, error) from None
        producer.begin_transaction()
        sent = send(producer, pieces)
        return producer.prepare_transaction(), sent
