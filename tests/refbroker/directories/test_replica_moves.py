"""Partitions that move between data directories while they are written and read."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient import errors
from kclient.protocol.messages.delete_records import DeleteRecordsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from refbroker.directories import moves as replica_moves
from refbroker.log import PartitionLog
from refbroker.log.compaction.states import CleaningState
from refbroker.runtime.clock import WORK
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.refbroker.directories.directories import (
    ask,
    describe,
    directory,
    entries,
    fetch_request,
    home,
    log_of,
    moved,
    place,
    set_on_broker,
    settled,
    values,
)
from tests.support.broker_harness import Harness, batch, produce_request
from tests.support.waiting import until


@pytest_asyncio.fixture
async def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest_asyncio.fixture
async def harness(tmp_path: Path, disk: SimulatedDisk) -> AsyncIterator[Harness]:
    """A broker with two data directories beside that of the metadata, and a topic in the first of them."""
    paths = ",".join(str(tmp_path / name) for name in ("meta", "one", "two"))
    harness = Harness(tmp_path, files=disk, log_dirs=paths)
    harness.create("moving")
    await settled()
    assert place(harness, "moving") == "one"
    log = log_of(harness)
    log.update_config(dataclasses.replace(log.config, segment_bytes=4096))
    yield harness
    disk.heal()
    await stop(harness)


async def stop(harness: Harness) -> None:
    await harness.broker.moves.stop()
    harness.close()


def produce(harness: Harness, count: int, size: int = 100) -> None:
    for number in range(count):
        answer = harness.produce("moving", b"%d" % number + b"." * size)
        assert answer.error_code == 0


class Hold:
    """Holds copying in the worker thread until a test lets it continue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = asyncio.Event()
        self._continue = asyncio.Event()
        original, loop = replica_moves._copy, asyncio.get_running_loop()

        def copy(future: PartitionLog, records: Any) -> None:
            loop.call_soon_threadsafe(self.begun.set)
            asyncio.run_coroutine_threadsafe(self._continue.wait(), loop).result(20)
            original(future, records)

        monkeypatch.setattr(replica_moves, "_copy", copy)
        self._restore = partial(monkeypatch.setattr, replica_moves, "_copy", original)

    def release(self) -> None:
        self._restore()
        self._continue.set()


@pytest.mark.asyncio
async def test_a_moved_partition_has_all_its_records_and_takes_more(harness: Harness) -> None:
    produce(harness, 200)
    before, epoch = values(harness), log_of(harness).leader_epoch
    assert ask(harness, "two") == 0
    await moved(harness)
    assert place(harness, "moving") == "two"
    assert values(harness) == before
    assert len(log_of(harness).segments) > 3
    assert log_of(harness).leader_epoch == epoch
    assert home(harness, "moving") == directory(harness, "two").directory_id
    assert harness.produce("moving", b"more").base_offset == 200
    assert (entries(harness, "one"), entries(harness, "two")) == ({"moving-0-delete"}, {"moving-0"})
    harness.clock.step(60_000)
    await harness.broker.logs.delete_due_files()
    assert entries(harness, "one") == set()
    harness.restart()
    assert place(harness, "moving") == "two"
    assert values(harness)[:200] == before


@pytest.mark.asyncio
async def test_an_empty_partition_moves(harness: Harness) -> None:
    assert ask(harness, "two") == 0
    await moved(harness)
    assert place(harness, "moving") == "two"
    assert harness.produce("moving", b"first").base_offset == 0


@pytest.mark.asyncio
async def test_the_leader_epoch_and_the_partition_stay_the_same(harness: Harness) -> None:
    state = harness.broker.metadata.image.topics["moving"].partitions[0]
    before = (state.leader, state.leader_epoch)
    ask(harness, "two")
    await moved(harness)
    state = harness.broker.metadata.image.topics["moving"].partitions[0]
    assert (state.leader, state.leader_epoch) == before


@pytest.mark.asyncio
async def test_a_move_shows_in_the_description_with_its_lag(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(harness, 20)
    hold = Hold(monkeypatch)
    ask(harness, "two")
    await hold.begun.wait()
    results = describe(harness)
    (future,) = [one for topic in results["two"].topics for one in topic.partitions]
    assert (future.partition_index, future.offset_lag, future.is_future_key) == (0, 20, True)
    (current,) = [one for topic in results["one"].topics for one in topic.partitions]
    assert (current.offset_lag, current.is_future_key) == (0, False)
    hold.release()
    await moved(harness)
    (current,) = [one for topic in describe(harness)["two"].topics for one in topic.partitions]
    assert (current.offset_lag, current.is_future_key) == (0, False)


@pytest.mark.asyncio
async def test_what_is_written_during_a_move_is_moved_too(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(harness, 20)
    hold = Hold(monkeypatch)
    ask(harness, "two")
    await hold.begun.wait()
    produce(harness, 30)
    expected = values(harness)
    hold.release()
    await moved(harness)
    assert place(harness, "moving") == "two"
    assert values(harness) == expected
    assert len(expected) == 50


@pytest.mark.asyncio
async def test_a_move_ends_though_there_is_always_more_when_a_part_was_copied(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(harness, 20)
    original, loop = replica_moves._copy, asyncio.get_running_loop()

    async def produce_more() -> None:
        produce(harness, 1)

    def copy(future: PartitionLog, records: Any) -> None:
        original(future, records)
        if threading.current_thread() is not threading.main_thread():
            asyncio.run_coroutine_threadsafe(produce_more(), loop).result(20)

    monkeypatch.setattr(replica_moves, "_copy", copy)
    ask(harness, "two")
    await moved(harness)
    assert place(harness, "moving") == "two"
    assert [offset for offset, _ in values(harness)] == list(range(21))


@pytest.mark.asyncio
async def test_a_long_poll_is_answered_when_its_log_is_replaced(harness: Harness) -> None:
    produce(harness, 1)
    waiting = harness.send(fetch_request("moving", 0, max_wait_ms=3_600_000), 12)
    ask(harness, "two")
    answer = await asyncio.wait_for(waiting, 20)
    assert answer.responses[0].partitions[0].error_code == 0
    await moved(harness)


@pytest.mark.asyncio
async def test_the_log_start_moves_with_the_log_even_within_a_batch(harness: Harness) -> None:
    assert harness.produce("moving", *[b"%d" % number for number in range(10)]).base_offset == 0
    produce(harness, 5)
    delete_records(harness, 7)
    ask(harness, "two")
    await moved(harness)
    assert [offset for offset, _ in values(harness)] == list(range(7, 15))
    harness.restart(clean=False)
    assert log_of(harness).log_start_offset == 7
    assert len(values(harness)) == 8


def delete_records(harness: Harness, before: int) -> None:
    topic = DeleteRecordsRequest.DeleteRecordsTopic(
        name="moving",
        partitions=[DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=before)],
    )
    answer = harness.send(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
    assert answer.topics[0].partitions[0].low_watermark == before


@pytest.mark.asyncio
async def test_compaction_leaves_a_log_alone_that_moves_and_continues_where_it_was(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(harness, 20)
    log_of(harness).cleaned_up_to = 7
    hold = Hold(monkeypatch)
    ask(harness, "two")
    await hold.begun.wait()
    assert harness.broker.cleaner.state("moving", 0) is CleaningState.PAUSED
    hold.release()
    await moved(harness)
    assert harness.broker.cleaner.state("moving", 0) is None
    assert (directory(harness, "two").path / "cleaner-offset-checkpoint").read_text() == "0\n1\nmoving 0 7\n"
    harness.restart(clean=False)
    assert log_of(harness).cleaned_up_to == 7


@pytest.mark.asyncio
async def test_a_repeated_batch_is_known_after_a_move(harness: Harness) -> None:
    records = batch(b"once", producer_id=4711, producer_epoch=0, base_sequence=0)
    assert harness.produce_bytes("moving", records).base_offset == 0
    produce(harness, 3)
    ask(harness, "two")
    await moved(harness)
    assert harness.produce_bytes("moving", records).base_offset == 0
    following = batch(b"next", producer_id=4711, producer_epoch=0, base_sequence=1)
    assert harness.produce_bytes("moving", following).base_offset == 4


@pytest.mark.asyncio
async def test_a_move_back_cancels_the_move(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(harness, 20)
    hold = Hold(monkeypatch)
    ask(harness, "two")
    await hold.begun.wait()
    assert ask(harness, "one") == 0
    hold.release()
    await until(lambda: "moving-0-future" not in entries(harness, "two"))
    assert place(harness, "moving") == "one"
    assert not len(harness.broker.moves)
    assert len(values(harness)) == 20


@pytest.mark.asyncio
async def test_a_move_can_be_sent_elsewhere_and_ends_there(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    produce(harness, 20)
    hold = Hold(monkeypatch)
    ask(harness, "two")
    await hold.begun.wait()
    assert ask(harness, "two") == 0
    assert ask(harness, "meta") == 0
    hold.release()
    await moved(harness)
    assert place(harness, "moving") == "meta"
    await until(lambda: "moving-0-future" not in entries(harness, "two"))
    assert len(values(harness)) == 20


@pytest.mark.asyncio
async def test_a_topic_deleted_during_its_move_leaves_nothing(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(harness, 20)
    hold = Hold(monkeypatch)
    ask(harness, "two")
    await hold.begun.wait()
    harness.send(DeleteTopicsRequest(topic_names=["moving"]), 5)
    hold.release()
    await until(lambda: "moving-0-future" not in entries(harness, "two"))
    harness.clock.step(60_000)
    await harness.broker.logs.delete_due_files()
    assert entries(harness, "one") | entries(harness, "two") == set()


@pytest.mark.asyncio
async def test_moves_are_no_faster_than_the_throttle_lets_them(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_moves, "COPY_BYTES", 1000)
    produce(harness, 20, size=900)
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    assert set_on_broker(harness, rate, "100").error_code == 0
    # The rate is looked at from time to time.
    harness.clock.step(1000)
    ask(harness, "two")
    await harness.clock.all_asleep({WORK.get()})
    future = harness.broker.logs.future("moving", 0)
    assert future is not None
    assert future.log_end_offset == 1
    harness.clock.step(8000)
    await settled()
    assert future.log_end_offset == 1
    set_on_broker(harness, rate, "1000000")
    harness.clock.step(2000)
    await moved(harness)
    assert place(harness, "moving") == "two"


@pytest.mark.asyncio
async def test_a_move_that_was_interrupted_continues_after_the_next_start(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_moves, "COPY_BYTES", 2000)
    produce(harness, 100)
    expected = values(harness)
    ask(harness, "two")
    await until(lambda: (log := harness.broker.logs.future("moving", 0)) is not None and log.log_end_offset > 20)
    await harness.broker.moves.stop()
    harness.restart()
    future = harness.broker.logs.future("moving", 0)
    assert future is not None
    assert 20 < future.log_end_offset < 100
    await moved(harness)
    assert place(harness, "moving") == "two"
    assert values(harness) == expected


@pytest.mark.asyncio
@pytest.mark.parametrize("again", ["one", "two", "meta"])
async def test_a_failed_move_can_be_repeated_or_cancelled(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    produce(harness, 20)
    with monkeypatch.context() as patched:
        patched.setattr(replica_moves, "_copy", lambda future, records: 1 // 0)
        ask(harness, "two")
        await moved(harness)
    assert (place(harness, "moving"), entries(harness, "two")) == ("one", {"moving-0-future"})
    assert ask(harness, again) == 0
    await moved(harness)
    assert place(harness, "moving") == again
    assert len(values(harness)) == 20
    assert "moving-0-future" not in entries(harness, "two")


@pytest.mark.asyncio
async def test_a_copy_beside_the_log_itself_is_removed(harness: Harness) -> None:
    produce(harness, 20)
    harness.broker.logs.close()
    path = directory(harness, "one").path
    shutil.copytree(path / "moving-0", path / f"moving-0.{'0' * 32}-future")
    harness.open()
    assert entries(harness, "one") == {"moving-0", "moving-0-delete"}
    assert not len(harness.broker.moves)
    assert len(values(harness)) == 20


@pytest.mark.asyncio
async def test_of_copies_in_several_directories_one_is_filled_further(harness: Harness) -> None:
    produce(harness, 20)
    harness.broker.logs.close()
    for name, digit in (("meta", "1"), ("two", "2")):
        copied = directory(harness, name).path / f"moving-0.{digit * 32}-future"
        shutil.copytree(directory(harness, "one").path / "moving-0", copied)
    harness.open()
    assert len(harness.broker.moves) == 1
    await moved(harness)
    assert place(harness, "moving") in ("meta", "two")
    assert len(values(harness)) == 20
    found = [entries(harness, name) for name in ("meta", "one", "two")]
    assert sorted(map(sorted, found)) == [["moving-0"], ["moving-0-delete"], ["moving-0-delete"]]


@pytest.mark.asyncio
async def test_a_copy_that_is_ahead_of_the_log_starts_again(harness: Harness) -> None:
    produce(harness, 20)
    ask(harness, "two")
    await moved(harness)
    produce(harness, 20)
    # As after a crash that cost the current log what the copy of it has.
    harness.broker.logs.close()
    one, two = directory(harness, "one").path, directory(harness, "two").path
    (two / "moving-0").rename(one / "moving-0")
    (two / "recovery-point-offset-checkpoint").unlink()
    harness.open()
    produce(harness, 1)
    assert ask(harness, "two") == 0
    await harness.broker.moves.stop()
    future = harness.broker.logs.future("moving", 0)
    assert future is not None
    while future.log_end_offset <= log_of(harness).log_end_offset:
        future.append(batch(b"ahead"), leader_epoch=0, now_ms=harness.clock())
    expected = values(harness)
    harness.restart()
    await moved(harness)
    assert place(harness, "moving") == "two"
    assert values(harness) == expected


@pytest.mark.asyncio
async def test_a_crash_before_the_renaming_is_made_good_at_the_next_start(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(harness, 20)
    expected = values(harness)

    def crash(topic: str, partition: int) -> None:
        raise RuntimeError("crash")

    monkeypatch.setattr(harness.broker.logs, "promote", crash)
    ask(harness, "two")
    await moved(harness)
    assert home(harness, "moving") == directory(harness, "two").directory_id
    assert (entries(harness, "one"), entries(harness, "two")) == ({"moving-0"}, {"moving-0-future"})
    harness.restart(clean=False)
    assert place(harness, "moving") == "two"
    assert values(harness) == expected
    assert entries(harness, "one") == {"moving-0-delete"}


@pytest.mark.asyncio
async def test_a_crash_between_the_renamings_leaves_the_new_log(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(harness, 20)
    expected = values(harness)

    def crash(keys: Any) -> None:
        raise RuntimeError("crash")

    monkeypatch.setattr(directory(harness, "one"), "delete", crash)
    ask(harness, "two")
    await moved(harness)
    assert (entries(harness, "one"), entries(harness, "two")) == ({"moving-0"}, {"moving-0"})
    harness.restart(clean=False)
    assert place(harness, "moving") == "two"
    assert values(harness) == expected
    assert entries(harness, "one") == {"moving-0-stray"}


@pytest.mark.asyncio
async def test_a_failing_target_leaves_the_partition_where_it_is(harness: Harness, disk: SimulatedDisk) -> None:
    produce(harness, 20)
    disk.fail(path_prefix=directory(harness, "two").path, operation="write")
    assert ask(harness, "two") == errors.KafkaStorageError.code
    await moved(harness)
    assert [each.is_online for each in harness.broker.logs.directories] == [True, True, False]
    assert len(values(harness)) == 20
    assert harness.produce("moving", b"on").base_offset == 20


@pytest.mark.asyncio
async def test_a_target_that_fails_later_ends_the_move(
    harness: Harness, disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(harness, 20)
    hold = Hold(monkeypatch)
    ask(harness, "two")
    await hold.begun.wait()
    disk.fail(path_prefix=directory(harness, "two").path)
    hold.release()
    await until(lambda: not directory(harness, "two").is_online)
    await moved(harness)
    assert harness.produce("moving", b"on").base_offset == 20
    assert home(harness, "moving") == directory(harness, "one").directory_id
    disk.heal()
    harness.restart()
    await moved(harness)
    assert place(harness, "moving") == "two"
    assert len(values(harness)) == 21


@pytest.mark.asyncio
async def test_a_source_that_fails_leaves_the_copy_for_later(
    harness: Harness, disk: SimulatedDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(harness, 20)
    hold = Hold(monkeypatch)
    ask(harness, "two")
    await hold.begun.wait()
    disk.fail(path_prefix=directory(harness, "one").path)
    assert harness.produce("moving", b"lost").error_code == errors.KafkaStorageError.code
    hold.release()
    await moved(harness)
    assert harness.produce("moving", b"lost").error_code == errors.KafkaStorageError.code
    assert entries(harness, "two") == {"moving-0-future"}
    disk.heal()
    harness.restart()
    await moved(harness)
    assert place(harness, "moving") == "two"
    assert len(values(harness)) == 20


@pytest.mark.asyncio
async def test_moves_that_cannot_be_made_are_refused(harness: Harness, disk: SimulatedDisk) -> None:
    assert ask(harness, "/nowhere") == errors.LogDirNotFoundError.code
    assert ask(harness, "two", "unknown") == errors.UnknownTopicOrPartitionError.code
    assert ask(harness, "two", "moving", 5) == errors.UnknownTopicOrPartitionError.code
    assert ask(harness, "two", "t" * 230) == errors.InvalidTopicError.code
    assert ask(harness, "one") == 0
    set_on_broker(harness, "cordoned.log.dirs", str(directory(harness, "two").path))
    await settled()
    assert ask(harness, "two") == errors.InvalidReplicaAssignmentError.code
    set_on_broker(harness, "cordoned.log.dirs", "")
    disk.fail(path_prefix=directory(harness, "two").path)
    directory(harness, "two").deletions.schedule([directory(harness, "two").path / "x"], 0)
    await harness.broker.logs.delete_due_files()
    assert ask(harness, "two") == errors.KafkaStorageError.code
    # The log may be in the directory that is offline, too.
    assert ask(harness, "meta") == errors.KafkaStorageError.code


@pytest.mark.asyncio
async def test_a_move_requested_before_the_topic_exists_decides_where_it_is_created(harness: Harness) -> None:
    assert ask(harness, "meta", "coming", 1) == errors.UnknownTopicOrPartitionError.code
    harness.create("filling", 4)
    harness.create("coming", 2)
    await settled()
    assert place(harness, "coming", 1) == "meta"
    assert home(harness, "coming") == directory(harness, place(harness, "coming")).directory_id


@pytest.mark.asyncio
async def test_answers_that_wait_for_replicas_follow_a_partition_that_moves(harness: Harness) -> None:
    harness.assign("moving", 7, in_sync=True)
    waiting = harness.send(produce_request("moving", batch(b"a")), 9)
    assert ask(harness, "two") == 0
    await moved(harness)
    assert not waiting.done()
    log_of(harness).update_high_watermark(1)
    assert (await waiting).responses[0].partition_responses[0].error_code == 0


@pytest.mark.asyncio
async def test_a_coordinator_continues_after_its_partition_has_moved(harness: Harness) -> None:
    harness.create("__consumer_offsets", cleanup_policy="compact")
    await settled()

    def commit(offset: int) -> int:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="moving", partitions=[partition])
        answer = harness.send(OffsetCommitRequest(group_id="g", topics=[topic]), 8)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    assert commit(1) == 0
    there = "two" if place(harness, "__consumer_offsets") != "two" else "one"
    assert ask(harness, there, "__consumer_offsets") == 0
    await moved(harness)
    assert place(harness, "__consumer_offsets") == there
    assert commit(2) == 0, "it was not loaded again"
    log = harness.log("__consumer_offsets")
    assert (log.high_watermark, log.log_end_offset) == (2, 2)
