"""State machines over the partitions of an internal topic: loading, writing, failing, giving up, and their timers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio

from kclient.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    KafkaStorageError,
    NotCoordinatorError,
    UnknownServerError,
)
from kclient.protocol import Message
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.records.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from kclient.protocol.messages.records.metadata_log import ConfigRecord
from kclient.records import COMMIT, BatchBuilder, control_batch
from refbroker.coordinators.loading import RECORDS_IN_A_PIECE, LoadSummary
from refbroker.coordinators.records import CoordinatorRecord, decode_record, partition_for
from refbroker.coordinators.runtime import (
    CoordinatorResult,
    CoordinatorRuntime,
    ShardContext,
    coordinator_error,
)
from refbroker.coordinators.states import ShardState
from refbroker.coordinators.timers import ClockTimers
from refbroker.log import FileRange, Origin
from refbroker.metadata.image import TOPIC_RESOURCE
from refbroker.runtime.clock import Clock
from refbroker.testing.control.elections import elect
from tests.support.broker_harness import START_MS, Harness
from tests.support.golden_data import golden_assignor_rows

TOPIC = "state"
TIMEOUT_MS = 5000


def record(key: str, value: int | None) -> CoordinatorRecord:
    """A record of the test's state: a name and a number."""
    held = None if value is None else OffsetCommitValue(offset=value)
    return CoordinatorRecord(OffsetCommitKey(group=key), held, 3)


class Numbers:
    """A state machine: numbers by name."""

    def __init__(self, context: ShardContext[Numbers]) -> None:
        self.context = context
        self.numbers: dict[str, int] = {}
        self.offsets: list[int] = []
        self.pending: dict[int, dict[str, int]] = {}
        self.heard: list[str] = []

    def replay(self, key: Message, value: Message | None, producer_id: int, offset: int) -> None:
        assert isinstance(key, OffsetCommitKey)
        self.offsets.append(offset)
        if value is None:
            self.numbers.pop(key.group, None)
            return
        assert isinstance(value, OffsetCommitValue)
        held = self.numbers if producer_id < 0 else self.pending.setdefault(producer_id, {})
        held[key.group] = value.offset

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        held = self.pending.pop(producer_id, {})
        if committed:
            self.numbers.update(held)

    def loaded(self) -> None:
        self.heard.append("loaded")

    def unloaded(self) -> None:
        self.heard.append("unloaded")


class Runtime(CoordinatorRuntime[Numbers]):
    """A runtime that a test waits for."""

    def __init__(self, harness: Harness, **options: Any) -> None:
        broker, load_buffer_bytes = harness.broker, options.pop("load_buffer_bytes", 1 << 20)
        super().__init__(
            broker.partitions,
            broker.clock,
            TOPIC,
            Numbers,
            load_buffer_bytes=load_buffer_bytes,
            timeout_ms=lambda: TIMEOUT_MS,
        )
        harness.broker.metadata.listeners.append(self.follow)
        self.catch_up()

    async def loaded(self, partition: int = 0) -> Numbers:
        """The state, once it is loaded."""
        owned = self._owned[partition]
        if owned.loading is not None:
            await owned.loading
        return self.shard(partition)

    def set(self, partition: int = 0, **numbers: int | None) -> str:
        """Write numbers; the answer is theirs."""
        records = [record(key, value) for key, value in numbers.items()]
        return self.write(partition, lambda machine: CoordinatorResult(records, f"{len(machine.numbers)} before"))


@pytest_asyncio.fixture
async def runtime(harness: Harness) -> AsyncIterator[Runtime]:
    harness.create(TOPIC, 2, cleanup_policy="compact")
    runtime = Runtime(harness)
    yield runtime
    runtime.close()


def configure(harness: Harness, **configs: str) -> None:
    """Give the topic settings."""
    harness.broker.controller.append(
        [
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=TOPIC, name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ]
    )


def _log(harness: Harness, partition: int = 0) -> Any:
    log = harness.broker.logs.get(TOPIC, partition)
    assert log is not None
    return log


# Keys


def test_a_key_belongs_to_the_partition_that_java_says() -> None:
    assert partition_for("polygenelubricants", 50) == 0, "its hash is the one number that has no absolute value"
    known = {"": 0, "group--clxff6678hb1": 44, "group--cbl9z33arax7": 10, "group-p2284pqprpc0": 20}
    assert {key: partition_for(key, 50) for key in known} == known
    assert partition_for("gr\u00fc\U0001f600ppe", 50) == 21


def test_keys_belong_to_the_partitions_of_the_golden_file() -> None:
    cases = golden_assignor_rows("coordinator")
    assert len(cases) > 30
    assert [partition_for(each["group"], each["partitions"]) for each in cases] == [e["partition"] for e in cases]


# Write


async def test_what_is_written_is_replayed_and_then_answered(harness: Harness, runtime: Runtime) -> None:
    assert runtime.partitions() == [0, 1]
    assert runtime.set(a=1, b=2) == "0 before"
    assert runtime.set(a=None, c=3) == "2 before"
    machine = runtime.shard(0)
    assert (machine.numbers, machine.offsets, machine.heard) == ({"b": 2, "c": 3}, [0, 1, 2, 3], ["loaded"])
    assert runtime.shard(1).numbers == {}
    assert _log(harness).log_end_offset == 4


async def test_an_operation_without_records_writes_nothing(harness: Harness, runtime: Runtime) -> None:
    told: list[KafkaError | None] = []
    result = CoordinatorResult((), "answer", told.append)
    assert runtime.write(0, lambda machine: result) == "answer"
    assert (told, _log(harness).log_end_offset) == ([None], 0)


async def test_an_operation_that_is_refused_changes_nothing(harness: Harness, runtime: Runtime) -> None:
    def refuse(machine: Numbers) -> CoordinatorResult[None]:
        raise IllegalGenerationError

    with pytest.raises(IllegalGenerationError):
        runtime.write(0, refuse)
    assert _log(harness).log_end_offset == 0


async def test_records_that_the_state_has_already_are_not_replayed(runtime: Runtime) -> None:
    told: list[KafkaError | None] = []
    runtime.write(0, lambda machine: CoordinatorResult([record("a", 1)], None, told.append, replayed=False))
    assert (runtime.shard(0).numbers, told) == ({}, [None])


async def test_a_failed_append_is_answered_as_coordinators_do_and_changes_nothing(
    harness: Harness, runtime: Runtime
) -> None:
    runtime.set(a=1)
    told: list[KafkaError | None] = []

    def fails_with(expected: type[KafkaError], value: CoordinatorRecord) -> None:
        with pytest.raises(expected):
            runtime.write(0, lambda machine: CoordinatorResult([value], None, told.append))
        assert type(told.pop()) is expected
        assert runtime.shard(0).numbers == {"a": 1}

    harness.assign(TOPIC, 7)
    configure(harness, min_insync_replicas="2")
    fails_with(CoordinatorNotAvailableError, record("b", 1))
    configure(harness, min_insync_replicas="1", max_message_bytes="200")
    fails_with(UnknownServerError, record("b" * 300, 1))
    _log(harness).health.fail(KafkaStorageError("Input/output error"))
    fails_with(NotCoordinatorError, record("b", 1))


async def test_a_long_list_of_independent_records_goes_in_several_batches(harness: Harness, runtime: Runtime) -> None:
    configure(harness, max_message_bytes="1000")
    records = [record(f"number {number}", number) for number in range(100)]
    with pytest.raises(UnknownServerError):
        runtime.write(0, lambda machine: CoordinatorResult(records, None))
    runtime.write(0, lambda machine: CoordinatorResult(records, None, atomic=False))
    assert len(runtime.shard(0).numbers) == 100
    assert _log(harness).log_end_offset == 100


async def test_what_a_transaction_writes_counts_when_it_is_committed(harness: Harness, runtime: Runtime) -> None:
    result = CoordinatorResult([record("a", 1)], None)
    runtime.write(0, lambda machine: result, producer_id=7, producer_epoch=0, verified=True)
    assert runtime.shard(0).numbers == {}
    marker = control_batch(COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=START_MS)
    _log(harness).append(marker, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=START_MS)
    runtime.close()
    again = Runtime(harness)
    assert (await again.loaded()).numbers == {"a": 1}
    again.close()


# Load


async def test_the_state_comes_back_from_the_log_and_until_then_it_is_loading(
    harness: Harness, runtime: Runtime
) -> None:
    runtime.set(a=1, b=2)
    runtime.set(a=None)
    runtime.close()
    again = Runtime(harness)
    for _ in range(2):
        with pytest.raises(CoordinatorLoadInProgressError):
            again.shard(0)
        with pytest.raises(CoordinatorLoadInProgressError):
            again.set(c=3)
    assert again.shard(1).heard == ["loaded"], "which has nothing to load"
    machine = await again.loaded()
    assert (machine.numbers, machine.offsets, machine.heard) == ({"b": 2}, [0, 1, 2], ["loaded"])
    assert again.set(c=3) == "1 before"
    again.close()


async def test_loading_lets_others_have_the_loop_between_its_pieces(harness: Harness, runtime: Runtime) -> None:
    pieces = 5
    for number in range(pieces * RECORDS_IN_A_PIECE // 50):
        runtime.set(**{f"n{number}_{each}": each for each in range(50)})
    runtime.close()
    again = Runtime(harness)
    seen: set[int] = set()
    owned = again._owned[0]
    while owned.state is ShardState.LOADING:
        seen.add(len(owned.shard.numbers) // RECORDS_IN_A_PIECE)
        await asyncio.sleep(0)
    assert len(again.shard(0).numbers) == pieces * RECORDS_IN_A_PIECE
    assert len(seen) >= pieces - 1
    again.close()


async def test_a_log_is_read_in_pieces_even_if_a_batch_is_larger_than_one(harness: Harness, runtime: Runtime) -> None:
    for number in range(20):
        runtime.set(**{f"n{number}_{each}": each for each in range(20)})
    runtime.close()
    again = Runtime(harness, load_buffer_bytes=64)
    assert len((await again.loaded()).numbers) == 400
    again.close()


async def test_records_of_kinds_that_are_not_known_are_skipped(harness: Harness, runtime: Runtime) -> None:
    runtime.set(a=1)
    builder = BatchBuilder()
    builder.append(START_MS, b"\x7f\x00key", b"\0\0")
    _log(harness).append(builder.build(), leader_epoch=0, origin=Origin.COORDINATOR, now_ms=START_MS)
    runtime.close()
    again = Runtime(harness)
    assert (await again.loaded()).numbers == {"a": 1}
    again.close()


async def test_a_partition_that_cannot_be_loaded_is_nobodys_and_the_others_are_served(
    harness: Harness, runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    builder = BatchBuilder()
    builder.append(START_MS, b"\x00\x01", b"")
    _log(harness).append(builder.build(), leader_epoch=0, origin=Origin.COORDINATOR, now_ms=START_MS)
    runtime.set(1, a=1)
    runtime.close()
    again = Runtime(harness)
    with pytest.raises(NotCoordinatorError):
        await again.loaded(0)
    assert (await again.loaded(1)).numbers == {"a": 1}
    assert "could not load state-0" in caplog.text
    again.close()
    assert again.partitions() == []


# Give up


async def test_a_new_epoch_of_the_leader_unloads_and_loads_again(harness: Harness, runtime: Runtime) -> None:
    runtime.set(a=1)
    before = runtime.shard(0)
    elect(harness.broker, TOPIC, 0)
    assert before.heard == ["loaded", "unloaded"]
    after = await runtime.loaded()
    assert after is not before
    assert after.numbers == {"a": 1}
    assert runtime.shard(1).heard == ["loaded"]


async def test_a_topic_that_is_deleted_has_no_coordinators(harness: Harness, runtime: Runtime) -> None:
    runtime.set(a=1)
    before = runtime.shard(0)
    topics = [DeleteTopicsRequest.DeleteTopicState(name=TOPIC)]
    harness.send(DeleteTopicsRequest(topics=topics, timeout_ms=1000), 6)
    assert before.heard == ["loaded", "unloaded"]
    with pytest.raises(NotCoordinatorError):
        runtime.shard(0)
    harness.create(TOPIC, 1)
    assert runtime.shard(0).numbers == {}


async def test_a_load_that_is_given_up_ends_after_its_read(
    harness: Harness, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.set(a=1)
    runtime.close()
    begun, proceed, read = threading.Event(), threading.Event(), FileRange.read

    def slow_read(records: FileRange) -> bytes:
        begun.set()
        assert proceed.wait(20)
        return read(records)

    monkeypatch.setattr(FileRange, "read", slow_read)
    again = Runtime(harness)
    loading = again._owned[0].loading
    assert loading is not None
    assert await asyncio.to_thread(begun.wait, 20)
    again.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not loading.done()
    proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await loading


async def test_loading_ends_when_the_broker_gives_up_the_partition(harness: Harness, runtime: Runtime) -> None:
    runtime.set(a=1)
    runtime.close()
    again = Runtime(harness)
    owned = again._owned[0]
    again.close()
    assert owned.loading is not None
    with pytest.raises(asyncio.CancelledError):
        await owned.loading
    assert (owned.state, owned.shard.heard) == (ShardState.CLOSED, [])


@pytest.mark.parametrize("error", [None, KafkaStorageError("Input/output error")], ids=["loaded", "failed"])
async def test_a_load_that_ends_after_its_partition_was_given_up_leaves_the_shard_closed(
    harness: Harness, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, error: KafkaError | None
) -> None:
    runtime.set(a=1)
    runtime.close()
    begun = asyncio.Event()

    async def load_in_spite_of_cancellation(*arguments: Any) -> LoadSummary:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        if error is not None:
            raise error
        return LoadSummary()

    monkeypatch.setattr("refbroker.coordinators.runtime.load", load_in_spite_of_cancellation)
    again = Runtime(harness)
    owned = again._owned[0]
    await begun.wait()
    again.close()
    assert owned.loading is not None
    with pytest.raises(IllegalStateError, match="shard state-0 is 'closed'"):
        await owned.loading
    assert (owned.state, owned.shard.heard) == (ShardState.CLOSED, [])


# Timers


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_timers_of_a_state_machine_write_when_their_time_has_come(harness: Harness, runtime: Runtime) -> None:
    def later(machine: Numbers) -> CoordinatorResult[None]:
        machine.context.schedule("t", 1000, lambda: CoordinatorResult([record("late", 1)], None))
        machine.context.schedule("other", 1000, lambda: CoordinatorResult([record("never", 1)], None))
        machine.context.cancel("other")
        return CoordinatorResult((), None)

    runtime.write(0, later)
    harness.clock.step(999)
    await _turns()
    assert runtime.shard(0).numbers == {}
    harness.clock.step(1)
    await _turns()
    assert runtime.shard(0).numbers == {"late": 1}
    assert _log(harness).log_end_offset == 1


async def test_a_timer_that_cannot_write_tries_again_if_it_is_asked_to(harness: Harness, runtime: Runtime) -> None:
    context = runtime.shard(0).context
    harness.assign(TOPIC, 7)
    configure(harness, min_insync_replicas="2")
    context.schedule("once", 10, lambda: CoordinatorResult([record("once", 1)], None))
    context.schedule("again", 10, lambda: CoordinatorResult([record("again", 1)], None), 500)
    harness.clock.step(10)
    await _turns()
    configure(harness, min_insync_replicas="1")
    harness.clock.step(500)
    await _turns()
    assert runtime.shard(0).numbers == {"again": 1}


async def test_timers_end_with_the_shard(harness: Harness, runtime: Runtime) -> None:
    done: list[str] = []

    def note() -> CoordinatorResult[None]:
        done.append("done")
        return CoordinatorResult((), None)

    runtime.shard(0).context.schedule("t", 10, note)
    elect(harness.broker, TOPIC, 0)
    harness.clock.step(10)
    await _turns()
    assert not done


def _timers() -> tuple[Clock, ClockTimers, list[str], Callable[[str], Callable[[], None]]]:
    clock = Clock()
    clock.hold(0)
    done: list[str] = []
    return clock, ClockTimers(clock), done, lambda name: lambda: done.append(name)


async def test_a_postponed_timer_ends_at_its_last_deadline() -> None:
    clock, timers, done, note = _timers()
    timers.schedule("t", 100, note("first"))
    clock.step(50)
    timers.schedule("t", 100, note("second"))
    clock.step(99)
    await _turns()
    assert not done
    clock.step(1)
    await _turns()
    assert (done, len(timers)) == (["second"], 0)


async def test_a_timer_that_is_brought_forward_ends_then() -> None:
    clock, timers, done, note = _timers()
    timers.schedule("t", 100, note("first"))
    timers.schedule("t", 10, note("second"))
    clock.step(10)
    await _turns()
    assert done == ["second"]
    clock.step(1000)
    await _turns()
    assert done == ["second"]


async def test_a_clock_that_is_moved_back_does_not_make_timers_longer() -> None:
    clock, timers, done, note = _timers()
    timers.schedule("t", 100, note("t"))
    clock.step(50)
    timers.schedule("t", 100, note("t"))
    clock.step(-1_000_000)
    for ms in (50, 49):
        clock.step(ms)
        await _turns()
        assert not done
    clock.step(1)
    await _turns()
    assert done == ["t"]


def test_records_decode_to_what_they_were() -> None:
    for each in (record("a", 5), record("a", None)):
        key, value = each.encode()
        assert decode_record(key, value, TOPIC) == (each.key, each.value)


def test_a_disk_that_fails_is_another_coordinator() -> None:
    assert isinstance(coordinator_error(KafkaStorageError("gone")), NotCoordinatorError)
