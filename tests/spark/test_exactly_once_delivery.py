"""What a task of an exactly-once write knows of itself, and how a decision is put into words; no broker, no PySpark."""

from __future__ import annotations

import pytest

from kclient.errors import KafkaTimeoutError
from kclient.spark.delivery import choose_delivery
from kclient.spark.errors import OptionError, SourceError
from kclient.spark.exactly_once import TaskAttempt, TaskResult, abort, commit
from kclient.spark.exactly_once.clients import CLIENTS, Clients
from kclient.spark.exactly_once.decision import MOST_METADATA, Decision, Entry, decode, encode, following
from kclient.spark.exactly_once.delivery import BATCH, QUERY, RUN, SPECULATION
from kclient.spark.exactly_once.errors import ExactlyOnceError, OldCheckpointError, SupersededError
from kclient.spark.exactly_once.settings import Settings
from kclient.spark.options import WriteOptions
from kclient.spark.record_columns import RecordColumns

STREAM = {QUERY: "q", BATCH: "3", RUN: "1f2e3d4c-0000-4000-8000-000000000000"}


class Context:
    """A task's context."""

    def __init__(self, **properties: str) -> None:
        self._properties = properties

    def partitionId(self) -> int:
        return 1

    def attemptNumber(self) -> int:
        return 0

    def getLocalProperty(self, key: str) -> str | None:
        return self._properties.get(key)


def options(**more: str) -> WriteOptions:
    return WriteOptions.parse(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "delivery": "exactly_once", **more}
    )


def columns() -> RecordColumns:
    return RecordColumns.choose({"value": "string"}, "t")


@pytest.mark.parametrize("missing", [QUERY, BATCH, RUN])
def test_a_task_that_does_not_know_its_batch_says_what_is_missing(missing: str) -> None:
    properties = {name: value for name, value in STREAM.items() if name != missing}
    with pytest.raises(ExactlyOnceError, match=missing.replace(".", r"\.")):
        choose_delivery(options(), columns()).write(iter([]), Context(**properties))


def test_a_task_that_finds_no_broker_fails_within_the_time_that_other_writes_have() -> None:
    # Time enough for the connection to be refused, which the error tells.
    delivery = choose_delivery(options(**{"kafka.max.block.ms": "2000"}), columns())
    with pytest.raises(
        SourceError,
        match=r"^Kafka on 127.0.0.1:1 did not answer: .* within kafka\.max\.block\.ms \(2000\): .*could not connect",
    ):
        delivery.write(iter([]), Context(**STREAM))
    CLIENTS.close()


def test_a_driver_that_finds_no_broker_fails_within_the_same_time() -> None:
    settings = Settings(
        client={"bootstrap.servers": "127.0.0.1:1", "max.block.ms": "300"}, query="q", decision_topic="t"
    )
    clients = Clients()
    task = TaskResult(TaskAttempt(0, "a", 0), "q")
    for end in (commit, abort):
        with pytest.raises(KafkaTimeoutError):
            end(settings, 0, [task], clients)
    with pytest.raises(KafkaTimeoutError):
        clients.timeout_ms(settings)
    clients.close()


def test_speculative_execution_is_refused() -> None:
    with pytest.raises(OptionError, match="speculation=true"):
        choose_delivery(options(), columns()).write(iter([]), Context(**STREAM, **{SPECULATION: "true"}))


@pytest.mark.parametrize("name", ["acks", "enable.idempotence", "retries"])
def test_options_that_lose_records_are_refused(name: str) -> None:
    value = {"acks": "0", "enable.idempotence": "false", "retries": "0"}[name]
    with pytest.raises(OptionError, match=name):
        choose_delivery(options(**{f"kafka.{name}": value}), columns())


def test_a_stream_has_no_write_id() -> None:
    with pytest.raises(OptionError, match="a stream has an id"):
        choose_delivery(options(writeId="w"), columns())
    choose_delivery(options(writeId="w"), columns(), is_stream=False)


def decided(tasks: int) -> Decision:
    entries = tuple(Entry(number, number % 3, 1 << 24, 32766) for number in range(tasks))
    return Decision(batch=7, run="1f2e3d4c", past=("a", "b"), tasks=tasks, rows=1000 * tasks, entries=entries)


@pytest.mark.parametrize("tasks", [0, 1, 200, 5000])
def test_a_decision_comes_back_from_as_many_parts_as_it_needs(tasks: int) -> None:
    parts = encode(decided(tasks))
    assert max(map(len, parts)) <= MOST_METADATA
    assert (len(parts) > 1) == (tasks == 5000)
    assert decode(7, parts) == decided(tasks)
    with pytest.raises(ValueError, match="parts"):
        decode(7, [*parts, "0.0.0.0"])


def test_a_run_may_write_the_decided_batch_and_the_next_and_no_other_before_it() -> None:
    last = decided(1)
    last.check_run("new", 7)
    last.check_run("1f2e3d4c", 8)
    with pytest.raises(OldCheckpointError):
        last.check_run("new", 6)
    for run, batch in (("a", 8), ("b", 7), ("1f2e3d4c", 6)):
        with pytest.raises(SupersededError):
            last.check_run(run, batch)


def test_a_decision_remembers_the_runs_before() -> None:
    assert following(decided(1), 8, "1f2e3d4c", tasks=1, rows=0, entries=[]).past == ("a", "b")
    assert following(decided(1), 8, "c", tasks=1, rows=0, entries=[]).past == ("a", "b", "1f2e3d4c")
    assert following(None, 0, "c", tasks=1, rows=0, entries=[]).past == ()


def test_only_task_ids_of_the_query_and_the_parity_are_its_own() -> None:
    settings = Settings(client={}, query="q", decision_topic="t")
    assert settings.is_task_of(settings.task_id(2, 11, 0), 4)
    assert not settings.is_task_of(settings.task_id(3, 11, 0), 4)
    assert not settings.is_task_of(settings.driver_id, 4)
    assert not settings.is_task_of("kclient-spark-q-r-0-0-0", 4)
