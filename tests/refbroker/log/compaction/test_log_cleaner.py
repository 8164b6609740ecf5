"""The log cleaner: rounds over all logs, checkpoints, pauses, and logs that cannot be cleaned."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import logging
import random
import uuid

import pytest

from refbroker.log import LogConfig, PartitionLog
from refbroker.log.checkpoints import CLEANER_OFFSETS, read_offsets
from refbroker.log.compaction.manager import CleanerConfig, LogCleaner, uncleanable_bytes
from refbroker.log.compaction.offset_map import BYTES_PER_ENTRY
from refbroker.log.compaction.states import CleaningState
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.settings.definitions import broker_settings
from tests.support.stores import START_MS, Store
from tests.support.waiting import until
from tests.support.workshop import COMPACTED, put, records, with_config


def make_cleaner(store: Store, **settings: str) -> LogCleaner:
    """A cleaner of the store's logs; names of settings without `log.cleaner.`, underscores for dots."""
    named = {f"log.cleaner.{name.replace('_', '.')}": value for name, value in settings.items()}
    manager = store.manager or store.open(COMPACTED)
    config = CleanerConfig(lambda name: named.get(name, broker_settings()[name].default))
    return LogCleaner(manager, config, store.clock, store.disk)


def make_log(store: Store, topic: str, *, count: int = 40, config: LogConfig = COMPACTED) -> PartitionLog:
    """A log of one key written again and again."""
    manager = store.manager or store.open(COMPACTED)
    log = manager.create(topic, 0, uuid.uuid4(), config)
    rewrite(log, count)
    return log


def rewrite(log: PartitionLog, count: int = 40) -> None:
    for number in range(count):
        put(log, (b"key", b"%d" % number), timestamp=START_MS + number)
    log.roll()


def checkpointed(store: Store) -> dict[tuple[str, int], int]:
    return read_offsets(store.disk, store.directory / CLEANER_OFFSETS)


async def test_a_round_cleans_every_log_that_is_due_and_no_other(store: Store) -> None:
    dirty, other = make_log(store, "dirty"), make_log(store, "other")
    deleted = make_log(store, "deleted", config=with_config(cleanup_policy=("delete",)))
    patient = make_log(store, "patient", config=with_config(min_compaction_lag_ms=10**6))
    cleaner = make_cleaner(store)
    await cleaner.clean_due()
    assert [len(records(log)) for log in (dirty, other, deleted, patient)] == [1, 1, 40, 40]
    assert checkpointed(store) == {("dirty", 0): 40, ("other", 0): 40}
    stats = cleaner.stats
    assert (stats.passes, stats.records_read, stats.records_kept, stats.records_removed) == (2, 80, 2, 78)
    assert stats.last_run_ms == START_MS
    assert stats.last_pass is not None
    assert stats.last_pass.map_keys == 1
    # Both logs have the same size, so that each pass counts half.
    assert stats.bytes_read == 2 * (stats.last_pass.bytes_read + stats.last_pass.map_bytes_read) > 0
    assert stats.bytes_written == 2 * stats.last_pass.bytes_written > 0
    assert stats.max_dirty_percent == 0
    await cleaner.clean_due()
    assert stats.passes == 2


async def test_a_log_waits_until_enough_of_it_is_dirty(store: Store) -> None:
    log = make_log(store, "orders", config=with_config(min_cleanable_dirty_ratio=0.9))
    cleaner = make_cleaner(store)
    await cleaner.clean_due()
    put(log, (b"other", b"v" * 50))
    log.roll()
    await cleaner.clean_due()
    assert cleaner.stats.passes == 1
    assert 50 < cleaner.stats.max_dirty_percent < 90
    rewrite(log)
    await cleaner.clean_due()
    assert cleaner.stats.passes == 2


async def test_the_dirty_ratio_of_the_dirtiest_log_is_reported(store: Store) -> None:
    make_log(store, "clean")
    cleaner = make_cleaner(store)
    await cleaner.clean_due()
    make_log(store, "dirty")
    cleaner.look()
    assert cleaner.stats.max_dirty_percent == 100


async def test_the_metadata_log_is_never_compacted(store: Store) -> None:
    log = make_log(store, METADATA_TOPIC)
    await make_cleaner(store).clean_due()
    assert len(records(log)) == 40


async def test_a_map_that_is_too_small_takes_more_passes_in_the_same_round(store: Store) -> None:
    log = make_log(store, "orders", count=0)
    for number in range(100):
        put(log, (b"%d" % (number % 20), b"v"))
    log.roll()
    cleaner = make_cleaner(store, dedupe_buffer_size=str(12 * BYTES_PER_ENTRY), io_buffer_load_factor="0.5")
    await cleaner.clean_due()
    assert cleaner.stats.passes > 1
    assert len(records(log)) == 20
    assert cleaner.stats.max_map_utilization_percent <= 50


async def test_after_a_restart_it_continues_from_the_checkpoint(store: Store) -> None:
    make_log(store, "orders")
    await make_cleaner(store).clean_due()
    for clean in (True, False):
        store.close() if clean else store.crash()
        log = store.open(COMPACTED).get("orders", 0)
        assert log is not None
        assert log.cleaned_up_to == 40
        cleaner = make_cleaner(store)
        await cleaner.clean_due()
        assert cleaner.stats.passes == 0


async def test_a_log_that_is_deleted_leaves_no_checkpoint_for_one_of_the_same_name(store: Store) -> None:
    make_log(store, "orders")
    make_log(store, "other")
    await make_cleaner(store).clean_due()
    assert store.manager is not None
    store.manager.delete(("orders", 0))
    assert checkpointed(store) == {("other", 0): 40}
    assert make_log(store, "orders").cleaned_up_to is None


async def test_a_checkpoint_that_is_not_believed_is_warned_of_once(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    log = make_log(store, "orders", config=with_config(min_compaction_lag_ms=10**6))
    log.cleaned_up_to = 1000
    cleaner = make_cleaner(store)
    with caplog.at_level(logging.WARNING):
        await cleaner.clean_due()
        await cleaner.clean_due()
    assert len(caplog.records) == 1
    assert log.cleaned_up_to == 0


async def test_several_logs_are_cleaned_at_once_as_threads_say(store: Store) -> None:
    logs = [make_log(store, f"orders-{number}", count=400) for number in range(3)]
    cleaner = make_cleaner(store, threads="2", io_buffer_size="4000")
    work = asyncio.create_task(cleaner.clean_due())
    most = 0
    while not work.done():
        most = max(most, sum(log.being_cleaned for log in logs))
        await asyncio.sleep(0)
    await work
    assert most == 2
    assert [len(records(log)) for log in logs] == [1, 1, 1]


async def test_a_log_with_both_policies_is_left_to_retention_in_its_turn(store: Store) -> None:
    config = with_config(cleanup_policy=("compact", "delete"), retention_bytes=0)
    log = make_log(store, "orders", config=config)
    log.being_cleaned = True
    assert store.manager is not None
    await store.manager.apply_retention()
    assert log.log_start_offset == 0
    log.being_cleaned = False
    await make_cleaner(store).clean_due()
    assert not log.being_cleaned
    await store.manager.apply_retention()
    assert log.log_start_offset == 40


# Pauses, and ends of logs


async def test_a_pause_ends_a_pass_and_lets_none_begin_until_it_is_resumed(store: Store) -> None:
    log = make_log(store, "orders", count=400)
    cleaner = make_cleaner(store, io_buffer_size="200")
    work = asyncio.create_task(cleaner.clean_due())
    await until(lambda: log.being_cleaned)
    await cleaner.pause("orders", 0)
    assert cleaner.state("orders", 0) is CleaningState.PAUSED
    assert not log.being_cleaned
    assert log.cleaned_up_to is None
    await work
    await cleaner.clean_due()
    assert cleaner.stats.passes == 0
    cleaner.resume("orders", 0)
    await cleaner.clean_due()
    assert (cleaner.stats.passes, len(records(log))) == (1, 1)


async def test_a_log_can_be_deleted_and_created_again_while_it_is_cleaned(store: Store) -> None:
    log = make_log(store, "orders", count=400)
    cleaner = make_cleaner(store, io_buffer_size="200")
    work = asyncio.create_task(cleaner.clean_due())
    await until(lambda: log.being_cleaned)
    assert store.manager is not None
    store.manager.delete(("orders", 0))
    again = make_log(store, "orders", count=400)
    await work
    assert log.health.failure is None
    assert not cleaner.stats.uncleanable
    await cleaner.clean_due()
    assert len(records(again)) == 1


async def test_a_pass_that_is_cancelled_leaves_nothing_behind(store: Store) -> None:
    log = make_log(store, "orders", count=400)
    cleaner = make_cleaner(store, io_buffer_size="200")
    work = asyncio.create_task(cleaner.clean_due())
    await until(lambda: log.being_cleaned)
    work.cancel()
    await asyncio.wait([work])
    assert not log.being_cleaned
    assert cleaner.state("orders", 0) is None
    assert not [name for name in store.disk.names(log.directory) if name.endswith((".cleaned", ".swap"))]
    assert records(log)[-1].value == b"399"


async def test_a_damaged_log_is_skipped_with_an_error_and_the_others_are_compacted(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, sound = make_log(store, "damaged"), make_log(store, "sound")
    path = damaged.segments[0].path
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    cleaner = make_cleaner(store)
    with caplog.at_level(logging.ERROR):
        await cleaner.clean_due()
        await cleaner.clean_due()
    assert len(records(sound)) == 1
    assert cleaner.stats.uncleanable == {str(store.directory): {("damaged", 0)}}
    assert sum(map(len, cleaner.stats.uncleanable.values())) == 1
    assert uncleanable_bytes(damaged) == len(data)
    [error, marked] = [record.getMessage() for record in caplog.records]
    assert "its checksum does not match" in error
    assert "damaged-0" in marked
    assert damaged.health.failure is None
    assert store.manager is not None
    store.manager.delete(("damaged", 0))
    await cleaner.clean_due()
    assert not cleaner.stats.uncleanable


async def test_a_mistake_in_the_cleaner_is_logged_and_does_not_end_it(
    store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(store, "orders")
    cleaner = make_cleaner(store)

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("refbroker.log.compaction.filtering.BatchFilter.filter", fail)
    with caplog.at_level(logging.ERROR):
        await cleaner.clean_due()
    assert "a mistake" in caplog.text
    assert sum(map(len, cleaner.stats.uncleanable.values())) == 1


async def test_a_disk_that_fails_ends_the_pass_and_the_directory_is_looked_at_no_more(store: Store) -> None:
    log = make_log(store, "orders", count=400)
    cleaner = make_cleaner(store, io_buffer_size="200")
    store.disk.error = OSError(errno.EIO, "broken")
    await cleaner.clean_due()
    assert log.health.failure is not None
    assert not cleaner.stats.uncleanable
    assert cleaner.look() == []


async def test_the_throttle_waits_by_the_brokers_clock(store: Store, rng: random.Random) -> None:
    log = make_log(store, "orders", count=0)
    for number in range(50):
        put(log, (b"%d" % number, rng.randbytes(100)))
    log.roll()
    cleaner = make_cleaner(store, io_max_bytes_per_second="1000", io_buffer_size="1000")
    store.clock.step(1000)
    work = asyncio.create_task(cleaner.clean_due())
    began = store.clock()
    while not work.done():
        store.clock.step(100)
        await asyncio.sleep(0.001)
    await work
    stats = cleaner.stats
    assert stats.passes == 1
    assert store.clock() - began > (stats.bytes_read + stats.bytes_written) * 0.5


def test_every_cleaner_has_its_part_of_the_memory() -> None:
    config = CleanerConfig(
        {
            "log.cleaner.threads": "4",
            "log.cleaner.dedupe.buffer.size": "4000",
            "log.cleaner.io.buffer.size": "80000",
            "log.cleaner.io.buffer.load.factor": "0.7",
        }.get
    )
    assert dataclasses.astuple(config.of_one_cleaner()) == (1000, 0.7, 10_000)


async def test_buffers_and_rates_of_nothing_do_not_stop_it(store: Store) -> None:
    log = make_log(store, "orders", count=3)
    cleaner = make_cleaner(store, io_buffer_size="0", io_max_bytes_per_second="0")
    await cleaner.clean_due()
    assert len(records(log)) == 1
