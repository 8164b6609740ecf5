"""The two-phase commit of a query that writes to Kafka, with death and failure at every single call it makes.

No PySpark: a stand-in for it (`spark_stand_in`) runs tasks and commits, against whichever broker is under test.
KCLIENT_EXACTLY_ONCE_STEPS=all tries every step, which takes minutes; by default some are picked.
"""

from __future__ import annotations

import os
import random
from contextlib import ExitStack
from functools import partial

import pytest

from kclient import Admin, Producer, TopicPartition
from kclient.spark.errors import OptionError
from kclient.spark.exactly_once import abort, commit
from kclient.spark.exactly_once.decision import read_decision
from kclient.spark.exactly_once.errors import (
    ExactlyOnceError,
    NotRepeatableError,
    OldCheckpointError,
    RivalError,
    SupersededError,
    TransactionExpiredError,
    TransactionLostError,
)
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

SOME = 4


def chosen_steps(servers: str, topic: str, tasks: int, rng: random.Random) -> list[int]:
    """Of those there are when nothing goes wrong."""
    chance = Chance()
    with query(servers, f"{topic}-steps", batches_of(2, tasks, rows=1)) as healthy:
        healthy.run(chance)
    every = range(len(chance.steps))
    return list(every) if os.environ.get("KCLIENT_EXACTLY_ONCE_STEPS") == "all" else sorted(rng.sample(every, SOME))


def check(servers: str, written: Query, where: object = None) -> None:
    """Every row is there once, and nothing is left open."""
    assert committed(servers, written.topic) == expected(written.rows), where
    assert open_transactions(servers, written) == [], where


def has_ended(servers: str, written: Query) -> bool:
    """Whether no transaction of the query is open."""
    return not open_transactions(servers, written)


@pytest.mark.parametrize("error", [Killed, Failed])
@pytest.mark.parametrize("tasks", [1, 4])
def test_every_row_is_written_once_whichever_call_was_the_last(
    bootstrap_servers: str, topic: str, tasks: int, error: type[BaseException], rng: random.Random
) -> None:
    rows = batches_of(2, tasks, rows=1)
    for at in chosen_steps(bootstrap_servers, topic, tasks, rng):
        chance = Chance(at, error)
        with query(bootstrap_servers, f"{topic}-{at}", rows) as written:
            try:
                written.run(chance)
            except error:
                assert chance.happened
            if written.done < len(rows):
                written.run()
            check(bootstrap_servers, written, f"step {at} of {chance.steps}")


@pytest.mark.usefixtures("transaction_version")
def test_every_row_is_written_once_by_a_query_that_dies_again_and_again(
    bootstrap_servers: str, topic: str, rng: random.Random
) -> None:
    with query(bootstrap_servers, topic, batches_of(6, 2)) as written:
        for _ in range(12):
            chance = Chance(rng.randrange(120), rng.choice([Killed, Failed]))
            try:
                written.run(chance)
            except (Killed, Failed):
                assert chance.happened
        written.run()
        check(bootstrap_servers, written)


# -- who reads, and what


def test_nothing_of_a_batch_is_visible_before_it_is_decided(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 3)) as written:
        tasks = prepared_by_all(written, 0, "a")
        with Producer(bootstrap_servers=bootstrap_servers) as other:
            other.send(topic, b"after", partition=0)
        abort(written.settings, 0, tasks, written.process())
        assert committed(bootstrap_servers, topic) == [b"after"]


def test_tasks_and_batches_without_rows_write_nothing(bootstrap_servers: str, topic: str) -> None:
    rows: list[list[list[bytes]]] = [[[b"a"], []], [[], []], [], [[], [b"b"]]]
    with query(bootstrap_servers, topic, rows) as written:
        chance = Chance()
        written.run(chance)
        check(bootstrap_servers, written)
        assert chance.steps.count("after prepare_transaction") == 2
        decision = read_decision(written.process().admin(written.settings), written.settings)
        assert decision is not None
        assert (decision.batch, decision.tasks, [entry.partition for entry in decision.entries]) == (3, 2, [1])


def test_a_list_of_transactions_goes_over_as_many_partitions_as_it_needs(
    bootstrap_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kclient.spark.exactly_once.decision.MOST_METADATA", 120)
    with query(bootstrap_servers, topic, batches_of(2, 8), partitions=5) as written:
        with pytest.raises(Killed):
            written.run(Chance(name="after commit_transaction"))
        decided = decided_offsets(bootstrap_servers, written)
        assert len(decided) > 1
        assert all(found and found.offset == 0 and len(found.metadata) <= 120 for found in decided.values())
        written.run()
        check(bootstrap_servers, written)


def test_a_list_that_is_too_long_fails_the_batch_and_says_what_to_do(
    bootstrap_servers: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kclient.spark.exactly_once.decision.MOST_METADATA", 120)
    with query(bootstrap_servers, topic, batches_of(1, 8), partitions=1) as written:
        with pytest.raises(ExactlyOnceError, match="decisionTopic"):
            written.run()
        monkeypatch.undo()
        written.run()
        check(bootstrap_servers, written)


# -- attempts, runs and queries that are not alone


def test_an_attempt_does_not_end_the_transaction_of_another_attempt(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1)) as written:
        # Spark gives attempts of a stage that it repeats the same number.
        first = written.task(0, 0, "a", written.process(), attempt=0)
        second = written.task(0, 0, "a", written.process(), attempt=0)
        assert first.prepared is not None
        assert second.prepared is not None
        assert first.prepared.transactional_id != second.prepared.transactional_id
        commit(written.settings, 0, [first], written.process())
        check(bootstrap_servers, written)


def test_an_abandoned_attempt_is_aborted_although_its_transaction_is_prepared(
    bootstrap_servers: str, topic: str
) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1)) as written:
        written.task(0, 0, "a", written.process(), attempt=0)
        second = written.task(0, 0, "a", written.process(), attempt=1)
        driver = written.process()
        commit(written.settings, 0, [second], driver)
        check(bootstrap_servers, written)


def test_an_attempt_that_wakes_up_after_the_batch_was_decided_writes_nothing(
    bootstrap_servers: str, topic: str
) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1)) as written:
        commit(written.settings, 0, prepared_by_all(written, 0, "a"), written.process())
        late = written.task(0, 0, "a", written.process(), attempt=0)
        assert late.prepared is None
        check(bootstrap_servers, written)


@pytest.mark.parametrize("tasks", [1, 5])
@pytest.mark.parametrize("step", ["before commit_transaction", "after commit_transaction"])
def test_a_batch_that_comes_back_in_another_number_of_tasks_is_written_once(
    bootstrap_servers: str, topic: str, tasks: int, step: str
) -> None:
    with query(bootstrap_servers, topic, batches_of(2, 3)) as written:
        with pytest.raises(Killed):
            written.run(Chance(name=step))
        rows = expected(written.rows[:1])
        written.rows[0] = [rows[number::tasks] for number in range(tasks)]
        written.run()
        check(bootstrap_servers, written)


def test_an_abandoned_driver_cannot_decide_a_batch_that_its_successor_repeats(
    bootstrap_servers: str, topic: str
) -> None:
    with query(bootstrap_servers, topic, batches_of(2, 2)) as written:
        old = written.process()
        stale = prepared_by_all(written, 0, "old")
        commit(written.settings, 0, prepared_by_all(written, 0, "new"), written.process())
        with pytest.raises(RivalError):
            commit(written.settings, 0, stale, old)
        abort(written.settings, 0, stale, old)
        written.done = 1
        written.run()
        check(bootstrap_servers, written)


def test_a_late_decision_of_an_old_driver_is_valid_and_its_successor_restarts(
    bootstrap_servers: str, topic: str
) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 2)) as written:
        stale = prepared_by_all(written, 0, "old")
        newer = prepared_by_all(written, 0, "new")
        commit(written.settings, 0, stale, written.process())
        driver = written.process()
        with pytest.raises(RivalError, match="batch 0"):
            commit(written.settings, 0, newer, driver)
        abort(written.settings, 0, newer, driver)
        written.run()
        check(bootstrap_servers, written)


def test_of_two_queries_with_one_id_the_one_that_started_first_fails(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(4, 1)) as written:
        first, second = written.process(), written.process()
        commit(written.settings, 0, prepared_by_all(written, 0, "first"), first)
        commit(written.settings, 1, prepared_by_all(written, 1, "second"), second)
        with pytest.raises(SupersededError):
            prepared_by_all(written, 2, "first")
        with pytest.raises(SupersededError):
            prepared_by_all(written, 1, "first")
        written.done = 2
        written.run()
        check(bootstrap_servers, written)


def test_two_processes_of_one_driver_take_turns(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(4, 1)) as written:
        drivers = [written.process(), written.process()]
        for batch in range(4):
            commit(written.settings, batch, prepared_by_all(written, batch, "a"), drivers[batch % 2])
        check(bootstrap_servers, written)


def test_a_checkpoint_that_was_restored_is_detected(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(3, 1)) as written:
        written.run()
        written.done = 1
        with pytest.raises(OldCheckpointError, match="up to batch 2"):
            written.run()
        assert committed(bootstrap_servers, topic) == expected(written.rows)


def test_a_decision_that_its_driver_did_not_end_is_not_waited_for(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1)) as written:
        with pytest.raises(Killed):
            written.run(Chance(name="before commit_transaction"))
        # Half a minute is the timeout of a decision: the test's own time is up before.
        written.run()
        check(bootstrap_servers, written)


def test_offsets_of_other_applications_are_not_read_as_a_decision(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1)) as written:
        with Admin(bootstrap_servers=bootstrap_servers) as admin:
            admin.alter_group_offsets(written.settings.group, {TopicPartition(topic, 0): 7})
        with pytest.raises(ExactlyOnceError, match="something else uses the group's name"):
            written.run()


# -- time


@pytest.mark.usefixtures("transaction_version")
def test_a_transaction_that_timed_out_before_the_decision_fails_the_batch(
    bootstrap_servers: str, topic: str, short: dict[str, str]
) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 2), client=short) as written:
        late = prepared_by_all(written, 0, "a")
        wait_until(lambda: not open_transactions(bootstrap_servers, written), OVER)
        driver = written.process()
        with pytest.raises(TransactionExpiredError, match=r"batch 0 .* task 0 \(kclient-spark-q-.*-0-0-0\)") as told:
            commit(written.settings, 0, late, driver)
        assert [partition for partition, _ in told.value.tasks] == [0, 1]
        abort(written.settings, 0, late, driver)
        assert committed(bootstrap_servers, topic) == []
        written.take_time()
        written.run()
        check(bootstrap_servers, written)


@pytest.mark.usefixtures("transaction_version")
@pytest.mark.parametrize("repeatable", [False, True])
def test_a_decided_transaction_that_timed_out_is_never_passed_over(
    bootstrap_servers: str, topic: str, repeatable: bool, short: dict[str, str]
) -> None:
    with query(bootstrap_servers, topic, batches_of(2, 2), client=short, repeatable=repeatable) as written:
        tasks = prepared_by_all(written, 0, "a")
        with pytest.raises(Killed):
            commit(written.settings, 0, tasks, written.process(Chance(name="before complete_transaction")))
        [first, _] = tasks
        with Admin(bootstrap_servers=bootstrap_servers) as admin:
            assert first.prepared is not None
            admin.complete_transaction(first.prepared)
        wait_until(lambda: not open_transactions(bootstrap_servers, written), OVER)
        written.take_time()
        if repeatable:
            written.rows[0].append([])
            with pytest.raises(NotRepeatableError, match=r"had 2 tasks .* and has 3"):
                written.run()
            del written.rows[0][2]
            written.run()
            check(bootstrap_servers, written)
            return
        for _ in range(2):
            with pytest.raises(TransactionLostError, match=r"batch 0 .* task 1 \(kclient-spark-q-.*-1-0-0\)"):
                written.run()
        assert committed(bootstrap_servers, topic) == sorted(written.rows[0][0])


def test_rows_that_are_written_again_are_written_once_though_that_fails_at_any_call(
    bootstrap_servers: str, topic: str, rng: random.Random, short: dict[str, str]
) -> None:
    with ExitStack() as stack:
        queries = []
        for number in range(6):
            name = f"{topic}-{number}"
            made = query(bootstrap_servers, name, batches_of(1, 2), client=short, repeatable=True)
            queries.append(written := stack.enter_context(made))
            tasks = prepared_by_all(written, 0, "a")
            with pytest.raises(Killed):
                commit(written.settings, 0, tasks, written.process(Chance(name="before complete_transaction")))
        for written in queries:
            wait_until(partial(has_ended, bootstrap_servers, written), OVER)
            written.take_time()
            chance = Chance(rng.randrange(60), rng.choice([Killed, Failed]))
            try:
                written.run(chance)
            except (Killed, Failed):
                assert chance.happened
            if not written.done:
                written.run()
            check(bootstrap_servers, written, chance.steps[-1])


def test_transactions_take_the_longest_timeout_that_the_brokers_allow(bootstrap_servers: str, topic: str) -> None:
    with query(bootstrap_servers, topic, batches_of(1, 1)) as written:
        [task] = prepared_by_all(written, 0, "a")
        assert task.prepared is not None
        name = task.prepared.transactional_id
        with Admin(bootstrap_servers=bootstrap_servers) as admin:
            assert admin.describe_transactions(name)[name].timeout_ms == 900_000


def test_a_timeout_that_the_brokers_do_not_allow_is_a_wrong_option(bootstrap_servers: str, topic: str) -> None:
    with (
        query(bootstrap_servers, topic, batches_of(1, 1), client={"transaction.timeout.ms": "900001"}) as written,
        pytest.raises(OptionError, match=r"transaction\.max.timeout.ms"),
    ):
        written.run()
