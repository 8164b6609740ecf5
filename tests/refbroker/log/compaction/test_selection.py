"""Which log comes next, and how far it can be cleaned."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from refbroker.log import PartitionLog
from refbroker.log.compaction.selection import LogToClean, choose, measure
from tests.support.stores import START_MS, Store
from tests.support.workshop import COMPACTED, clean, end_transaction, put, with_config


@pytest.fixture
def log(store: Store) -> PartitionLog:
    return store.log(COMPACTED)


def three_segments(log: PartitionLog) -> list[int]:
    """Segments of one record each, a minute apart, and an empty active one; their sizes."""
    for number in range(3):
        put(log, (b"key %d" % number, b"v" * 100 * (number + 1)), timestamp=START_MS + 60_000 * number)
        log.roll()
    return [segment.size for segment in log.segments]


def test_everything_but_the_active_segment_is_dirty_at_first(store: Store, log: PartitionLog) -> None:
    sizes = three_segments(log)
    put(log, (b"a", b"1"))
    found = measure(log, store.clock())
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 3)
    assert (found.clean_bytes, found.cleanable_bytes, found.dirty_ratio) == (0, sum(sizes), 1.0)


def test_what_was_cleaned_counts_as_clean(store: Store, log: PartitionLog) -> None:
    three_segments(log)
    clean(store, log)
    put(log, (b"a", b"1" * 300))
    log.roll()
    found = measure(log, store.clock())
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (3, 4)
    sizes = [segment.size for segment in log.segments]
    assert (found.clean_bytes, found.cleanable_bytes) == (sum(sizes[:-2]), sizes[-2])
    assert found.dirty_ratio == sizes[-2] / sum(sizes)


def test_recent_records_are_left_alone(store: Store) -> None:
    log = store.log(with_config(min_compaction_lag_ms=60_000))
    three_segments(log)
    assert measure(log, START_MS + 59_999).first_uncleanable_offset == 0
    assert measure(log, START_MS + 60_000).first_uncleanable_offset == 1
    assert measure(log, START_MS + 180_000).first_uncleanable_offset == 3


def test_what_is_not_decided_is_left_alone_with_its_whole_segment(store: Store, log: PartitionLog) -> None:
    put(log, (b"a", b"1"))
    log.roll()
    put(log, (b"a", b"2"))
    put(log, (b"a", b"3"), producer=(7, 0, 0), transactional=True)
    log.roll()
    put(log, (b"a", b"4"))
    log.roll()
    assert measure(log, store.clock()).first_uncleanable_offset == 1
    end_transaction(log, 7, 0, commit=True)
    assert measure(log, store.clock()).first_uncleanable_offset == 4


@pytest.mark.parametrize(("checkpoint", "first_dirty"), [(None, 2), (1, 2), (2, 2), (3, 3), (4, 2)])
def test_a_checkpoint_outside_the_log_is_not_believed(
    store: Store, log: PartitionLog, caplog: pytest.LogCaptureFixture, checkpoint: int | None, first_dirty: int
) -> None:
    three_segments(log)
    log.delete_records(2)
    log.cleaned_up_to = checkpoint
    with caplog.at_level(logging.WARNING):
        assert measure(log, store.clock()).first_dirty_offset == first_dirty
    assert bool(caplog.records) is (checkpoint in (1, 4))


def test_a_start_moved_by_retention_causes_no_warning(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    log = store.log(with_config(cleanup_policy=("compact", "delete")))
    three_segments(log)
    log.delete_records(2)
    log.cleaned_up_to = 1
    with caplog.at_level(logging.WARNING):
        assert measure(log, store.clock()).first_dirty_offset == 2
    assert not caplog.records


def test_what_is_older_than_the_largest_lag_is_overdue_whatever_the_ratio(store: Store) -> None:
    log = store.log(with_config(max_compaction_lag_ms=600_000, min_cleanable_dirty_ratio=1.0))
    three_segments(log)
    found = measure(log, START_MS + 600_000)
    assert (found.overdue_ms, found.is_due) == (0, False)
    found = measure(log, START_MS + 600_007)
    assert (found.overdue_ms, found.is_due) == (7, True)
    clean(store, log)
    # The clean part is as old, but there is nothing to do.
    assert not measure(log, START_MS + 600_007).is_due


@pytest.mark.parametrize("timestamp", [-1, 0])
def test_records_without_a_time_are_never_overdue(store: Store, timestamp: int) -> None:
    log = store.log(with_config(max_compaction_lag_ms=600_000))
    put(log, (b"a", b"1"), timestamp=timestamp)
    log.roll()
    assert measure(log, store.clock()).overdue_ms == 0


def candidate(clean_bytes: int, dirty: int, *, ratio: float = 0.5, overdue_ms: int = 0) -> LogToClean:
    log: Any = SimpleNamespace(config=with_config(min_cleanable_dirty_ratio=ratio))
    return LogToClean(log, 0, 0, clean_bytes, dirty, overdue_ms)


def test_the_dirtiest_log_that_is_due_is_chosen() -> None:
    due, dirtier, not_yet = candidate(40, 60), candidate(30, 70), candidate(20, 80, ratio=0.9)
    assert choose([due, dirtier, not_yet]) is dirtier
    assert choose([not_yet, candidate(50, 50)]) is None
    assert choose([]) is None


def test_a_log_that_is_overdue_needs_no_ratio_but_something_to_clean() -> None:
    overdue = candidate(99, 1, overdue_ms=1)
    assert choose([overdue]) is overdue
    assert choose([candidate(99, 0, overdue_ms=1)]) is None
    assert choose([candidate(0, 0, ratio=0.0)]) is None
