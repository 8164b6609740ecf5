"""The loop against clients in memory: whatever fails at whichever step, each record counts once, and no transaction
stays open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from typing import Any

import anyio
import pytest

from kclient import ConsumerRecord, ProducerRecord, RebalanceListener, TopicPartition
from kclient.errors import (
    ClosedError,
    CommitFailedError,
    ConcurrentUseError,
    CorruptRecordError,
    GroupAuthorizationError,
    IllegalGenerationError,
    InvalidTxnStateError,
    KafkaError,
    KafkaTimeoutError,
    MaxPollExceeded,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordTooLargeError,
    SerializationError,
    TopicAuthorizationError,
    TransactionAbortableError,
    TransformError,
    UnknownMemberIdError,
    WakeupError,
)
from kclient.transform import loop as loop_module
from tests.unit.transform.model import (
    ASYNC,
    After,
    World,
    abortable,
    fatal,
    loop_of,
    name,
    run,
    run_async,
)

FIRST = TopicPartition("in", 0)


def same(record: ConsumerRecord) -> ProducerRecord:
    return ProducerRecord("out", name(record))


def whole(world: World) -> None:
    """Nothing is open, and what counts is what the group has committed; who goes on reads the rest."""
    assert world.state in ("ready", "uninitialized", "dead")
    assert sorted(world.results) == world.counted
    for tp in world.owned:
        assert world.position[tp] == (world.group[tp].offset if tp in world.group else 0), tp
    assert type(world.listener) is RebalanceListener


PASSING: list[KafkaError] = [
    abortable(TransactionAbortableError()),
    abortable(IllegalGenerationError()),
    abortable(UnknownMemberIdError()),
    abortable(OutOfOrderSequenceError()),
    abortable(InvalidTxnStateError()),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.name)
@pytest.mark.parametrize("step", ["send", "send_offsets_to_transaction", "commit_transaction"])
@pytest.mark.parametrize("face", ["blocking", "async"])
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_what_passes_is_aborted_and_read_again(step: str, error: KafkaError, face: str, before: int) -> None:
    world = World(5, faults={step: [None] * before + [error]})
    loop = loop_of(world, same, **(ASYNC if face == "async" else {}))
    if face == "async":
        asyncio.run(run_async(loop))
    else:
        run(loop)
    assert sorted(world.results) == world.everything
    assert world.calls.count("abort_transaction") == 1
    whole(world)


@pytest.mark.parametrize("step", ["poll", "send", "begin_transaction", "committed", "commit_transaction"])
def test_nothing_is_lost_or_doubled_when_calls_time_out(step: str) -> None:
    late = KafkaTimeoutError("it took too long")
    faults: dict[str, Any] = {step: [late, late], "send": [abortable(TransactionAbortableError())]}
    faults[step] = faults[step] if step != "send" else [late, abortable(TransactionAbortableError())]
    world = World(5, faults=faults)
    run(loop_of(world, same))
    assert sorted(world.results) == world.everything
    whole(world)


def test_a_commit_whose_outcome_is_not_known_is_asked_for_again_and_not_aborted() -> None:
    late = KafkaTimeoutError("it took too long")
    world = World(3, faults={"commit_transaction": [late, After(late), None]})
    run(loop_of(world, same))
    assert sorted(world.results) == world.everything
    assert "abort_transaction" not in world.calls
    whole(world)


def test_an_abort_whose_outcome_is_not_known_is_asked_for_again() -> None:
    late = KafkaTimeoutError("it took too long")
    world = World(
        3, faults={"send": [abortable(TransactionAbortableError())], "abort_transaction": [late, After(late)]}
    )
    run(loop_of(world, same))
    assert sorted(world.results) == world.everything
    assert world.calls.count("abort_transaction") == 3
    whole(world)


def test_offsets_that_are_late_are_waited_for_by_the_commit() -> None:
    world = World(3, faults={"send_offsets_to_transaction": [After(KafkaTimeoutError("it took too long"))]})
    run(loop_of(world, same))
    assert sorted(world.results) == world.everything
    assert "abort_transaction" not in world.calls
    whole(world)


STAYING = [
    ("send", abortable(TopicAuthorizationError(topic="out"))),
    ("send_offsets_to_transaction", abortable(GroupAuthorizationError())),
    ("commit_transaction", abortable(RecordTooLargeError())),
    ("poll", CorruptRecordError(topic="in", partition=0, offset=3)),
    ("poll", WakeupError()),
    ("poll", ClosedError()),
    ("poll", GroupAuthorizationError()),
]


@pytest.mark.parametrize(("step", "error"), STAYING, ids=lambda value: str(getattr(value, "name", value)))
def test_what_stays_ends_the_loop_with_nothing_open(step: str, error: KafkaError) -> None:
    world = World(5, faults={step: [None, error]})
    with pytest.raises(type(error)) as raised:
        run(loop_of(world, same))
    assert raised.value is error
    whole(world)


def test_an_error_about_the_next_record_leaves_those_before_it_committed() -> None:
    world = World(1, faults={"poll": [None, CorruptRecordError(topic="in", partition=0, offset=1)]})
    with pytest.raises(CorruptRecordError):
        run(loop_of(world, same, max_records=100))
    assert sorted(world.results) == world.everything
    whole(world)


@pytest.mark.parametrize(
    "step", ["init_transactions", "begin_transaction", "send", "send_offsets_to_transaction", "commit_transaction"]
)
def test_a_fenced_producer_ends_the_loop(step: str) -> None:
    error = fatal(ProducerFencedError())
    world = World(5)

    def fence() -> None:
        world.state, world.fenced = "dead", error
        raise error

    world.faults[step] = [fence] if step == "init_transactions" else [None, fence]
    with pytest.raises(ProducerFencedError) as raised:
        run(loop_of(world, same))
    assert raised.value is error
    whole(world)


def test_an_error_that_passes_as_a_rule_ends_the_loop_when_it_is_fatal() -> None:
    world = World(5, faults={"commit_transaction": [fatal(InvalidTxnStateError())]})
    with pytest.raises(InvalidTxnStateError):
        run(loop_of(world, same))
    whole(world)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        ("poll", "abort_transaction"),
        ("send", "abort_transaction"),
        ("send_offsets_to_transaction", "abort_transaction"),
        ("commit_transaction", "commit_transaction"),
        ("abort_transaction", "abort_transaction"),
        ("committed", None),
    ],
)
def test_an_interruption_leaves_nothing_open(step: str, outcome: str | None, kind: type[BaseException]) -> None:
    faults: dict[str, Any] = {"send": [None, None, None, None, abortable(TransactionAbortableError())]}
    faults[step] = [kind()] if step in ("abort_transaction", "committed") else [None, kind()]
    world = World(5, faults=faults)
    with pytest.raises(kind):
        run(loop_of(world, same, max_records=4 if step != "poll" else 100))
    assert world.state == "ready"
    assert sorted(world.results) == world.counted
    if outcome is not None:
        assert [call for call in world.calls if call.endswith("transaction")][-1] == outcome


def test_after_an_interruption_the_transaction_is_given_five_seconds() -> None:
    given: list[float | None] = []

    class Patient(World):
        def abort_transaction(self, timeout: float | None) -> None:
            given.append(timeout)
            super().abort_transaction(timeout)

    with pytest.raises(KeyboardInterrupt):
        run(loop_of(Patient(3, faults={"send": [None, KeyboardInterrupt()]}), same))
    assert given == [5.0]


@pytest.mark.anyio
async def test_a_task_that_is_cancelled_aborts_its_transaction() -> None:
    world = World(5)

    async def hang(record: ConsumerRecord) -> ProducerRecord | None:
        if record.offset == 2:
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()
        return same(record)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_async, loop_of(world, hang, max_records=100, **ASYNC))
    assert (world.state, world.results) == ("ready", [])
    assert world.calls[-1] == "abort_transaction"


# -- the function


def double(record: ConsumerRecord) -> list[ProducerRecord]:
    return [same(record), same(record)]


def generate(record: ConsumerRecord) -> Iterator[ProducerRecord]:
    yield same(record)
    yield same(record)


async def double_later(record: ConsumerRecord) -> list[ProducerRecord]:
    return double(record)


async def generate_later(record: ConsumerRecord) -> AsyncIterator[ProducerRecord]:
    yield same(record)
    yield same(record)


@pytest.mark.parametrize("function", [double, generate])
def test_a_record_may_become_several(function: Any) -> None:
    world = World(3)
    world.enough = 12
    run(loop_of(world, function))
    assert sorted(world.results) == sorted(world.everything * 2)


@pytest.mark.parametrize("function", [double, generate, double_later, generate_later])
async def test_on_the_async_face_functions_may_be_of_either_kind(function: Any) -> None:
    world = World(3)
    world.enough = 12
    await run_async(loop_of(world, function, **ASYNC))
    assert sorted(world.results) == sorted(world.everything * 2)


def test_a_record_may_become_nothing_and_is_committed_all_the_same() -> None:
    world = World(5)
    world.enough = 5
    run(loop_of(world, lambda record: same(record) if record.partition else None))
    assert {tp.partition: committed.offset for tp, committed in world.group.items()} == {0: 5, 1: 5}
    assert world.group[FIRST].leader_epoch == 7


def fails(record: ConsumerRecord) -> ProducerRecord:
    if name(record) == "1-2":
        raise ZeroDivisionError("a poison record")
    return same(record)


async def fails_later(record: ConsumerRecord) -> ProducerRecord:
    return fails(record)


def fails_half_way(record: ConsumerRecord) -> Iterator[ProducerRecord]:
    yield same(record)
    yield fails(record)


@pytest.mark.parametrize("function", [fails, fails_half_way])
def test_a_poison_record_ends_the_loop_and_is_named(function: Any) -> None:
    world = World(5)
    loop = loop_of(world, function)
    with pytest.raises(TransformError, match="ZeroDivisionError: a poison record") as raised:
        run(loop)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("in", 1, 2)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert "1-2" not in world.results
    assert world.state == "ready"
    assert world.position[TopicPartition("in", 1)] <= 2


async def test_a_poison_record_of_a_coroutine_function_is_named_as_well() -> None:
    with pytest.raises(TransformError) as raised:
        await run_async(loop_of(World(5), fails_later, **ASYNC))
    assert (raised.value.partition, raised.value.offset) == (1, 2)


def test_after_a_poison_record_the_loop_may_run_again() -> None:
    world = World(5)
    poison = {"1-2"}

    def once(record: ConsumerRecord) -> ProducerRecord:
        if name(record) in poison:
            poison.clear()
            raise ValueError(record)
        return same(record)

    loop = loop_of(world, once)
    with pytest.raises(TransformError):
        run(loop)
    run(loop)
    assert sorted(world.results) == world.everything
    whole(world)


def skip(record: ConsumerRecord, error: Exception) -> None:
    assert isinstance(error, ZeroDivisionError)


def bury(record: ConsumerRecord, error: Exception) -> ProducerRecord:
    return ProducerRecord("dead-letters", f"dead {name(record)}")


@pytest.mark.parametrize(("on_error", "instead"), [(skip, []), (bury, ["dead 1-2"])])
@pytest.mark.parametrize("function", [fails, fails_half_way])
def test_on_error_may_skip_a_record_or_send_it_elsewhere(function: Any, on_error: Any, instead: list[str]) -> None:
    world = World(5)
    per_record = 2 if function is fails_half_way else 1
    world.enough = 9 * per_record + len(instead)
    run(loop_of(world, function, on_error))
    good = [one for one in world.everything if one != "1-2"]
    assert sorted(world.results) == sorted(good * per_record + instead)
    assert {committed.offset for committed in world.group.values()} == {5}


def test_what_on_error_raises_ends_the_loop() -> None:
    def refuse(record: ConsumerRecord, error: Exception) -> None:
        raise LookupError("not this one") from error

    with pytest.raises(TransformError, match="not this one") as raised:
        run(loop_of(World(5), fails, refuse))
    assert isinstance(raised.value.__cause__, LookupError)


def test_an_error_of_kafka_in_the_function_is_the_functions() -> None:
    def asks_another_cluster(record: ConsumerRecord) -> None:
        raise KafkaTimeoutError("the other cluster is slow")

    with pytest.raises(TransformError, match="the other cluster"):
        run(loop_of(World(5), asks_another_cluster))


@pytest.mark.parametrize("returned", [b"bytes", 42, [b"bytes"], "text"])
def test_results_that_are_no_records_are_refused(returned: Any) -> None:
    with pytest.raises(TransformError, match="ProducerRecord"):
        run(loop_of(World(1), lambda record: returned))


def test_a_coroutine_function_needs_the_async_face() -> None:
    with pytest.raises(TransformError, match="AsyncTransform"):
        run(loop_of(World(1), double_later))


@pytest.mark.parametrize("error", [SerializationError("no bytes"), RecordTooLargeError(), TypeError()], ids=repr)
def test_results_that_cannot_be_sent_name_their_record(error: Exception) -> None:
    world = World(5, faults={"send": [None, error]})
    with pytest.raises(TransformError) as raised:
        run(loop_of(world, same))
    assert (raised.value.partition, raised.value.offset) == (0, 1)
    assert raised.value.__cause__ is error
    whole(world)


# -- partitions that come and go


class Hears(RebalanceListener):
    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: list[tuple[str, str, int]] = []

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("revoked", self.world.state, len(self.world.results)))

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("lost", self.world.state, len(self.world.results)))


def test_a_batch_is_committed_before_a_partition_of_it_goes() -> None:
    world = World(2)
    listener = world.listener = Hears(world)
    world.faults["poll"] = [None, lambda: world.give_up([FIRST])]
    run(loop_of(world, same, max_records=100))
    # The application hears of it when everything of the batch counts.
    assert listener.heard == [("revoked", "ready", 4)]
    assert sorted(world.results) == world.everything
    assert world.listener is listener


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.name)
def test_a_batch_that_cannot_be_committed_before_a_partition_goes_is_aborted(error: KafkaError) -> None:
    world = World(2)
    world.faults["poll"] = [None, lambda: world.give_up([FIRST])]
    world.faults["commit_transaction"] = [error]
    world.enough = 2
    run(loop_of(world, same, max_records=100))
    assert world.results == ["1-0", "1-1"], "the other partition is read again, this one by somebody else"
    assert FIRST not in world.group
    whole(world)


def test_a_batch_is_aborted_when_its_partitions_are_lost() -> None:
    world = World(2)
    listener = world.listener = Hears(world)

    def lose() -> None:
        world.give_up(world.owned, lost=True)
        world.get(world.log)
        raise MaxPollExceeded(1)

    world.faults["poll"] = [None, lose]
    run(loop_of(world, same, max_records=100))
    assert listener.heard == [("lost", "open", 0)]
    assert world.calls.count("abort_transaction") == 1
    assert sorted(world.results) == world.everything


def test_partitions_that_come_back_in_the_same_poll_are_not_taken_for_kept() -> None:
    world = World(2)

    def lose() -> None:
        world.give_up(world.owned, lost=True)
        world.get(world.log)

    world.faults["poll"] = [None, lose]
    run(loop_of(world, same, max_records=100))
    assert world.calls.count("abort_transaction") == 1
    assert sorted(world.results) == world.everything


def test_losing_partitions_between_two_batches_aborts_nothing() -> None:
    world = World(2)
    world.faults["poll"] = [lambda: world.give_up([FIRST], lost=True)]
    world.enough = 2
    run(loop_of(world, same))
    assert "abort_transaction" not in world.calls


async def test_the_async_face_commits_before_a_coroutine_listener_hears() -> None:
    world = World(2)
    heard: list[tuple[str, int]] = []

    class Later(RebalanceListener):
        async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
            await asyncio.sleep(0)
            heard.append((world.state, len(world.results)))

    world.listener = Later()
    loop = loop_of(world, same, max_records=100, **ASYNC)
    told: list[Any] = []
    world.faults["poll"] = [None, lambda: told.append(world.give_up([FIRST]))]
    client = loop._consumer
    poll = client.poll

    async def poll_and_tell(*arguments: Any) -> Any:
        found = await poll(*arguments)
        while told:  # AsyncConsumer awaits its listener in the middle of a poll
            await told.pop()
        return found

    object.__setattr__(client, "poll", poll_and_tell)
    await run_async(loop)
    assert heard == [("ready", 4)]


def test_the_listeners_own_error_ends_the_loop() -> None:
    world = World(2)
    world.faults["poll"] = [None, ZeroDivisionError()]
    with pytest.raises(ZeroDivisionError):
        run(loop_of(world, same, max_records=100))
    whole(world)


# -- when


def test_a_batch_is_committed_when_it_is_full() -> None:
    world = World(6)
    run(loop_of(world, same, max_records=4))
    assert world.calls.count("commit_transaction") == 3


def test_a_batch_is_committed_when_its_time_is_over_also_between_two_records() -> None:
    world = World(4)
    times = iter(range(1000))
    loop = loop_of(world, same, max_records=100, max_seconds=1.0, clock=lambda: float(next(times)))
    run(loop)
    assert world.calls.count("commit_transaction") >= 8, "each record takes longer than a batch may"
    assert sorted(world.results) == world.everything


def test_a_batch_gathers_the_records_of_several_polls() -> None:
    world = World(6)
    run(loop_of(world, same, max_records=100))
    assert world.calls.count("commit_transaction") == 1
    assert world.calls.count("begin_transaction") == 1


def test_stopping_commits_what_is_transformed_and_leaves_the_rest() -> None:
    world = World(4)

    def last(record: ConsumerRecord) -> ProducerRecord:
        if name(record) == "0-2":
            loop.stop()
        return same(record)

    loop = loop_of(world, last, max_records=100)
    run(loop)
    assert world.results == ["0-0", "0-1", "0-2"]
    whole(world)
    run(loop)
    assert len(world.results) == 3, "it stays stopped"


def test_a_batch_that_cannot_be_committed_when_it_is_to_stop_is_aborted() -> None:
    world = World(4, faults={"commit_transaction": [abortable(IllegalGenerationError())]})

    def last(record: ConsumerRecord) -> ProducerRecord:
        loop.stop()
        return same(record)

    loop = loop_of(world, last)
    run(loop)
    assert world.results == []
    whole(world)


def test_brokers_that_do_not_answer_do_not_keep_it_from_stopping() -> None:
    late = KafkaTimeoutError("nobody answers")
    world = World(4, faults={"commit_transaction": [late] * 9, "committed": [late]})

    def last(record: ConsumerRecord) -> ProducerRecord:
        loop.stop()
        return same(record)

    loop = loop_of(world, last)
    with pytest.raises(KafkaTimeoutError):
        run(loop)
    assert world.calls.count("commit_transaction") == 2


def test_pauses_grow_until_a_batch_is_committed() -> None:
    pauses: list[float] = []
    errors = [abortable(TransactionAbortableError()) for _ in range(9)]
    world = World(3, faults={"send": [*errors, *[None] * 3, abortable(TransactionAbortableError())]})
    run(loop_of(world, same, sleep=pauses.append))
    assert pauses[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, loop_module.LONGEST_PAUSE]
    assert pauses[-1] == 0.1
    assert sorted(world.results) == world.everything


def test_two_at_once_are_refused() -> None:
    world = World(2)

    def again(record: ConsumerRecord) -> None:
        run(loop)

    loop = loop_of(world, again)
    with pytest.raises(TransformError) as raised:
        run(loop)
    assert isinstance(raised.value.__cause__, ConcurrentUseError)


def test_a_producer_that_has_its_id_already_is_taken_as_it_is() -> None:
    world = World(2)
    world.init_transactions()
    run(loop_of(world, same))
    assert sorted(world.results) == world.everything


def test_it_counts_what_it_does() -> None:
    world = World(3, faults={"commit_transaction": [None, abortable(CommitFailedError("it rebalanced"))]})
    loop = loop_of(world, same)
    run(loop)
    found = loop.measures.metrics.snapshot()
    assert found["transform_records_in_total"] == found["transform_records_out_total"] == 6
    assert (found["transform_commit_total"], found["transform_abort_total"]) == (2, 1)
    assert found["transform_records_aborted_total"] == 3
    assert found["transform_batch_size_max"] == 3
    assert found["transform_batch_latency_avg"] >= found["transform_commit_latency_avg"] > 0
