"""Runs of a query that meet what runs before them left: decided batches, stale transactions, nothing at all.

`test_spark_exactly_once` has the death of a run at each of its calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import msgspec
import pytest

from kclient import Admin, NewTopic, Producer, TopicPartition
from kclient.errors import InvalidProducerEpochError, ProducerFencedError
from kclient.spark.exactly_once import TaskAttempt, TaskResult, abort, commit, write_task
from kclient.spark.exactly_once.clients import MOST_IDLE, Clients
from kclient.spark.exactly_once.decision import read_decision
from kclient.spark.exactly_once.errors import NotRepeatableError, OldCheckpointError, RivalError
from kclient.spark.exactly_once.recovery import sweep
from kclient.types import PreparedTransaction
from tests.support.logs import spark_messages
from tests.support.raw_transactions import RawTransactions
from tests.support.reading import committed
from tests.support.spark_stand_in import (
    OVER,
    Chance,
    Failed,
    Killed,
    Query,
    batches_of,
    decided_offsets,
    expected,
    open_transactions,
    prepared_by_all,
    query,
)
from tests.support.waiting import wait_until


class Meanwhile(Chance):
    """Lets others act at the first step of a name.

    Parameters:
        name: of the step.
        others: what they do.
    """

    def __init__(self, name: str, others: Callable[[], object]) -> None:
        super().__init__()
        self._when = name
        self._others = others

    def step(self, name: str) -> None:
        super().step(name)
        if name == self._when and self.steps.count(name) == 1:
            self._others()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that takes a slow broker long is not taken for one that its driver did not end."""
    monkeypatch.setattr("kclient.spark.exactly_once.decision.PATIENCE", 30.0)


def decide(written: Query, batch: int, run: str) -> None:
    """Let a run decide a batch, and die before its transactions are completed."""
    tasks = prepared_by_all(written, batch, run)
    with pytest.raises(Killed):
        commit(written.settings, batch, tasks, written.process(Chance(name="before complete_transaction")))


# -- a decided batch that comes back


@pytest.mark.parametrize(
    "now",
    [
        [[b"a", b"b", b"c", b"new"], [b"d"]],
        [[b"a", b"b", b"c"], [b"d"], [b"new"]],
        [[b"a", b"b"], []],
        [[], []],
    ],
    ids=["longer task", "another task", "fewer rows", "no rows"],
)
def test_a_decided_batch_that_comes_back_with_other_rows_is_detected(
    bootstrap_servers: str, topic: str, now: list[list[bytes]]
) -> None:
    with query(bootstrap_servers, topic, [[[b"a", b"b", b"c"], [b"d"]]]) as written:
        decide(written, 0, "a")
        written.rows[0] = now
        rows = sum(map(len, now))
        with pytest.raises(OldCheckpointError, match=rf"batch 0 .* 4 rows .* {rows} now"):
            written.run()
        # The decided batch is valid nevertheless.
        assert committed(bootstrap_servers, topic) == [b"a", b"b", b"c", b"d"]
        assert open_transactions(bootstrap_servers, written) == []


def test_a_repeated_batch_with_other_rows_is_accepted_if_input_is_not_repeatable(
    bootstrap_servers: str, topic: str
) -> None:
    with query(bootstrap_servers, topic, [[[b"a"], [b"b"]], [[b"c"]]], repeatable=False) as written:
        decide(written, 0, "a")
        written.rows[0] = [[b"a", b"x", b"y"]]
        written.run()
        assert committed(bootstrap_servers, topic) == [b"a", b"b", b"c"]


def test_a_decided_batch_that_comes_back_in_another_order_is_written_once(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, [[[b"a", b"b", b"c"], [b"d"]]]) as written:
        decide(written, 0, "a")
        written.rows[0] = [[b"d"], [], [b"c", b"b", b"a"]]
        written.run()
        assert committed(bootstrap_servers, topic) == [b"a", b"b", b"c", b"d"]


def test_the_tasks_of_a_decided_batch_read_their_rows_to_the_end(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 2, rows=50)) as written:
        decide(written, 0, "a")
        rows = iter(written.rows[0][1])
        written.rows[0][1] = rows  # type: ignore[call-overload]
        task = written.task(0, 1, "b", written.process())
        assert next(rows, None) is None
        assert (task.prepared, task.rows) == (None, 50)


def test_what_was_lost_is_not_written_again_by_input_that_differs_after_all(
    bootstrap_servers: str, topic: str, short: dict[str, str]
) -> None:
    rows = [[[b"a", b"b"], [b"c"]]]
    with query(bootstrap_servers, topic, rows, client=short, repeatable=True) as written:
        decide(written, 0, "a")
        wait_until(lambda: not open_transactions(bootstrap_servers, written), OVER)
        written.take_time()
        written.rows[0] = [[b"a", b"b"], [b"c", b"d"]]
        with pytest.raises(NotRepeatableError, match=r"3 rows .* 4 now"):
            written.run()
        assert committed(bootstrap_servers, topic) == []
        written.rows[0] = [[b"a", b"b"], [b"c"]]
        written.run()
        assert committed(bootstrap_servers, topic) == [b"a", b"b", b"c"]


# -- a decision that is not there, or not yet


def test_the_first_decision_of_a_query_is_read_once_it_is_stable(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1)) as written:
        tasks = prepared_by_all(written, 0, "a")
        with pytest.raises(Killed):
            commit(written.settings, 0, tasks, written.process(Chance(name="before commit_transaction")))
        chance = Chance()
        assert read_decision(written.process(chance).admin(written.settings), written.settings) is None
        assert "after fence_producers" in chance.steps
        written.run()
        assert committed(bootstrap_servers, topic) == expected(written.rows)


def test_the_first_decision_for_another_topic_is_read_once_it_is_stable(
    bootstrap_servers: str, topic: str, admin: Admin
) -> None:
    with query(bootstrap_servers, topic, batches_of(2, 1)) as written:
        commit(written.settings, 0, prepared_by_all(written, 0, "a"), written.process())
        admin.create_topics([NewTopic(f"{topic}-other")])
        written.settings = msgspec.structs.replace(written.settings, decision_topic=f"{topic}-other")
        tasks = prepared_by_all(written, 1, "a")
        with pytest.raises(Killed):
            commit(written.settings, 1, tasks, written.process(Chance(name="before commit_transaction")))
        chance = Chance()
        found = read_decision(written.process(chance).admin(written.settings), written.settings)
        assert found is not None
        assert found.batch == 0
        assert "after fence_producers" in chance.steps


def test_a_run_that_continues_without_finding_a_decision_says_what_may_be_wrong(
    bootstrap_servers: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "kclient.spark")
    with query(bootstrap_servers, topic, batches_of(4, 1)) as written:
        written.run()
        assert spark_messages(caplog) == []
        written.rows += batches_of(2, 1)
        written.settings = msgspec.structs.replace(written.settings, prefix="other")
        written.run()
        [warning] = spark_messages(caplog)
        assert "batch 4" in warning
        assert "transactionalIdPrefix" in warning


@pytest.mark.parametrize("step", [None, "after commit_transaction", "before the note of the batch"])
def test_empty_first_batches_cause_no_warning_of_a_missing_decision(
    bootstrap_servers: str, topic: str, caplog: pytest.LogCaptureFixture, step: str | None
) -> None:
    caplog.set_level(logging.WARNING, "kclient.spark")
    with query(bootstrap_servers, topic, [[[], []], [[], []]]) as written:
        if step is not None:
            with pytest.raises(Killed):
                written.run(Chance(name=step))
            assert written.done == 0
        written.run()
        written.rows += [[[b"a"], [b"b"]], [[], []], [[b"c"]]]
        written.run()
        assert spark_messages(caplog) == []
        assert committed(bootstrap_servers, topic) == [b"a", b"b", b"c"]
        assert open_transactions(bootstrap_servers, written) == []


def test_a_first_batch_without_rows_that_comes_back_with_some_is_detected(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, [[[], []]]) as written:
        with pytest.raises(Killed):
            written.run(Chance(name="before the note of the batch"))
        written.rows[0] = [[b"a"], []]
        with pytest.raises(OldCheckpointError, match="had 0 rows when it was decided, and has 1 now"):
            written.run()


@pytest.mark.usefixtures("patient")
def test_the_first_commit_of_a_run_reads_the_decision_once(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(2, 1)) as written:
        commit(written.settings, 0, prepared_by_all(written, 0, "a"), written.process())
        tasks = prepared_by_all(written, 1, "b")
        driver = Chance()
        commit(written.settings, 1, tasks, written.process(driver))
        assert driver.steps.count("before list_group_offsets") == 1


# -- transactions that are left behind


def test_a_batch_that_comes_back_without_rows_leaves_nothing_open(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(2, 2)) as written:
        prepared_by_all(written, 0, "a")
        written.rows[0] = [[], []]
        written.run()
        assert open_transactions(bootstrap_servers, written) == []
        assert committed(bootstrap_servers, topic) == expected(written.rows)


@pytest.mark.usefixtures("patient")
def test_a_batch_without_rows_costs_the_driver_one_request_once_its_run_has_begun(
    bootstrap_servers: str, topic: str
) -> None:
    with query(bootstrap_servers, topic, [[[b"a"]], [[]]]) as written:
        driver = Chance()
        clients = written.process(driver)
        commit(written.settings, 0, prepared_by_all(written, 0, "a"), clients)
        before = len(driver.steps)
        commit(written.settings, 1, prepared_by_all(written, 1, "a"), clients)
        assert driver.steps[before:] == ["before list_group_offsets", "after list_group_offsets"]


def test_an_abandoned_driver_does_not_abort_its_successors_transactions(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(3, 2)) as written:
        later: list[TaskResult] = []

        def succeed() -> None:
            commit(written.settings, 1, prepared_by_all(written, 1, "b"), successor)
            later.extend(prepared_by_all(written, 2, "b"))

        successor = written.process()
        old = written.process(Meanwhile("before list_transactions", succeed))
        commit(written.settings, 0, prepared_by_all(written, 0, "a"), old)
        commit(written.settings, 2, later, successor)
        assert committed(bootstrap_servers, topic) == expected(written.rows)


def test_an_abort_that_fails_completes_what_is_decided_before(
    bootstrap_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = Admin.complete_transaction

    def only_commit(admin: Admin, prepared: PreparedTransaction, *, commit: bool = True) -> None:
        if not commit:
            raise Failed("it was to fail here")
        complete(admin, prepared)

    with query(bootstrap_servers, topic, batches_of(1, 2)) as written:
        newer = [written.task(0, partition, "b", written.process()) for partition in range(2)]
        decide(written, 0, "a")
        with pytest.raises(RivalError):
            commit(written.settings, 0, newer, written.process())
        with monkeypatch.context() as patched:
            patched.setattr(Admin, "complete_transaction", only_commit)
            with pytest.raises(Failed):
                abort(written.settings, 0, newer, written.process())
        left = {one.prepared.transactional_id for one in newer if one.prepared}
        assert set(open_transactions(bootstrap_servers, written)) == left
        abort(written.settings, 0, newer, written.process())
        assert committed(bootstrap_servers, topic) == expected(written.rows)


def test_an_aborted_attempt_is_not_mistaken_for_a_loss_of_the_last_batch(
    bootstrap_servers: str, topic: str, raw: RawTransactions
) -> None:
    with (
        raw.at_transaction_version(1),
        query(bootstrap_servers, topic, [[[b"a"]], [[]], [[b"b"]]]) as written,
    ):
        commit(written.settings, 0, prepared_by_all(written, 0, "a"), written.process())
        commit(written.settings, 1, prepared_by_all(written, 1, "a"), written.process())
        [failed] = prepared_by_all(written, 2, "a")
        abort(written.settings, 2, [failed], written.process())
        again = written.task(2, 0, "b", written.process(), attempt=1)
        commit(written.settings, 2, [again], written.process())
        assert committed(bootstrap_servers, topic) == [b"a", b"b"]


@pytest.mark.usefixtures("transaction_version")
@pytest.mark.parametrize("repeatable", [None, True])
def test_an_aborted_attempt_is_not_mistaken_for_the_loss_of_a_repeated_batch(
    bootstrap_servers: str, topic: str, repeatable: bool | None
) -> None:
    with query(bootstrap_servers, topic, [[[b"a"]], [[]], [[b"b"]]], repeatable=repeatable) as written:
        for batch in range(2):
            commit(written.settings, batch, prepared_by_all(written, batch, "a"), written.process())
        failed = prepared_by_all(written, 2, "a")
        abort(written.settings, 2, failed, written.process())
        # The checkpoint is restored, and nothing of it was done.
        written.run()
        assert committed(bootstrap_servers, topic) == [b"a", b"b"]
        assert open_transactions(bootstrap_servers, written) == []


def test_what_an_attempt_left_open_is_aborted_in_later_commits_of_a_run_too(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(2, 1)) as written:
        driver = written.process()
        commit(written.settings, 0, prepared_by_all(written, 0, "a"), driver)
        prepared_by_all(written, 1, "a")
        commit(written.settings, 1, prepared_by_all(written, 1, "a"), driver)
        assert open_transactions(bootstrap_servers, written) == []
        assert committed(bootstrap_servers, topic) == expected(written.rows)


def test_a_decided_transaction_is_not_mistaken_for_a_stale_attempt(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, [[[b"a"]], [[]], [[b"b"]]]) as written:
        driver = written.process(chance := Chance())
        for batch in range(3):
            before = len(chance.steps)
            commit(written.settings, batch, prepared_by_all(written, batch, "a"), driver)
        assert "before list_transactions" not in chance.steps[before:]
        assert committed(bootstrap_servers, topic) == expected(written.rows)


def paused_attempt(
    written: Query, clients: Clients, while_paused: Callable[[], None], *, has_written: bool
) -> TaskResult:
    """Run attempt 0 of task 0, which pauses after it has taken its transactional id.

    Parameters:
        has_written: whether the pause comes after its first row, so that its transaction is open by then.
    """

    def send(producer: Producer, rows: Iterator[bytes]) -> int:
        if has_written:
            producer.send(written.topic, next(rows), partition=0).result(OVER)
        while_paused()
        return len([producer.send(written.topic, row, partition=1).result(OVER) for row in rows])

    return write_task(written.settings, TaskAttempt(0, "a", 0), written.rows[0][0], send, lambda row: 1, clients)


@pytest.mark.usefixtures("transaction_version")
@pytest.mark.parametrize("has_written", [True, False], ids=["open transaction", "no transaction yet"])
def test_an_attempt_that_resumes_after_the_sweep_cannot_open_a_transaction(
    bootstrap_servers: str, topic: str, *, has_written: bool
) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1)) as written:

        def succeed() -> None:
            again = written.task(0, 0, "a", written.process(), attempt=1)
            commit(written.settings, 0, [again], written.process())

        with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
            paused_attempt(written, written.process(), succeed, has_written=has_written)
        assert open_transactions(bootstrap_servers, written) == []
        assert committed(bootstrap_servers, topic) == expected(written.rows)


@pytest.mark.usefixtures("transaction_version")
def test_the_sweep_leaves_decided_transactions_to_be_completed(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 2)) as written:
        prepared_by_all(written, 0, "stale")
        stale = open_transactions(bootstrap_servers, written)
        decide(written, 0, "a")
        decided = set(open_transactions(bootstrap_servers, written)).difference(stale)
        admin = written.process().admin(written.settings)
        decision = read_decision(admin, written.settings)
        sweep(admin, written.settings, 0, decision)
        assert set(open_transactions(bootstrap_servers, written)) == decided
        assert len(decided) == 2
        written.run()
        assert committed(bootstrap_servers, topic) == expected(written.rows)


# -- processes that live long


@pytest.mark.usefixtures("patient")
def test_a_process_keeps_few_drivers_of_many_writes(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1, rows=1)) as written:
        chance = Chance()
        clients = written.process(chance)
        for number in range(2 * MOST_IDLE):
            written.settings = msgspec.structs.replace(written.settings, query=f"{topic}-{number}")
            commit(written.settings, 0, [written.task(0, 0, "a", clients)], clients)
        # Each has a task's producer and a driver's.
        opened = 2 * 2 * MOST_IDLE
        assert chance.steps.count("after init_transactions") == opened
        assert opened - chance.steps.count("after close") <= 2 * MOST_IDLE
        assert len(committed(bootstrap_servers, topic)) == 2 * MOST_IDLE
        assert list(decided_offsets(bootstrap_servers, written)) == [TopicPartition(topic, 0)]
