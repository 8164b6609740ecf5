"""Where two logs diverge: the answers of a leader, and what a follower truncates and appends."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kclient.errors import OffsetOutOfRangeError
from kclient.records import BatchHeader
from refbroker.log.leader_epochs import EpochEntry
from refbroker.replication import divergence
from refbroker.replication.divergence import FollowingStart, Reset, Truncation
from tests.support.stores import make_batch

UNKNOWN = EpochEntry(-1, -1)


class Batch(NamedTuple):
    """A batch of which only the epoch matters."""

    partition_leader_epoch: int


@pytest.mark.parametrize(
    ("found", "epoch", "offset", "diverging"),
    [
        pytest.param((2, 10), 2, 10, None, id="the same end"),
        pytest.param((2, 12), 2, 10, None, id="the leader has more"),
        pytest.param((2, 9), 2, 10, (2, 9), id="the follower has more of the epoch"),
        pytest.param((1, 10), 2, 10, (1, 10), id="the leader lacks the epoch"),
    ],
)
def test_leader_compares_epoch_and_end_of_the_follower(
    found: tuple[int, int], epoch: int, offset: int, diverging: tuple[int, int] | None
) -> None:
    assert divergence.diverging_epoch(EpochEntry(*found), epoch, offset, 0) == diverging


def test_unknown_epoch_and_deleted_offset_are_out_of_range() -> None:
    with pytest.raises(OffsetOutOfRangeError, match="end offset of the last fetched epoch 2"):
        divergence.diverging_epoch(UNKNOWN, 2, 10, 0)
    with pytest.raises(OffsetOutOfRangeError, match="the log starts at 11"):
        divergence.diverging_epoch(EpochEntry(1, 11), 2, 10, 11)


@pytest.mark.parametrize(
    ("leader", "own", "expected"),
    [
        pytest.param((2, 8), (2, 10), (8, True), id="the leader has less of the epoch"),
        pytest.param((2, 12), (2, 10), (10, True), id="the follower has less of the epoch"),
        pytest.param((2, 30), (2, 40), (20, True), id="at most the log end"),
        pytest.param((3, 12), (1, 5), (5, False), id="an epoch that the follower lacks"),
        pytest.param((1, 12), (-1, -1), (12, True), id="no epoch here"),
        pytest.param((-1, -1), (2, 10), (7, True), id="no epoch at the leader"),
    ],
)
def test_follower_truncates_to_what_both_logs_have(
    leader: tuple[int, int], own: tuple[int, int], expected: tuple[int, bool]
) -> None:
    assert divergence.truncation(EpochEntry(*leader), EpochEntry(*own), 20, 7) == Truncation(*expected)


@pytest.mark.parametrize(
    ("log_end", "high_watermark", "epoch", "expected"),
    [
        pytest.param(9, 4, 2, FollowingStart(None, 9, 2), id="with epochs"),
        pytest.param(9, 4, -1, FollowingStart(4, 4, -1), id="without epochs"),
        pytest.param(0, 0, -1, FollowingStart(None, 0, -1), id="empty"),
    ],
)
def test_follower_begins_at_its_log_end(
    log_end: int, high_watermark: int, epoch: int, expected: FollowingStart
) -> None:
    assert divergence.following_start(log_end, high_watermark, epoch) == expected


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(0, 7, Reset(7, None, 7), id="the leader has less"),
        pytest.param(12, 20, Reset(None, 12, 12), id="the leader starts later"),
        pytest.param(5, 20, Reset(None, None, 10), id="within"),
        pytest.param(10, 10, Reset(None, None, 10), id="at the end"),
    ],
)
def test_fetch_offset_out_of_range_is_reset(start: int, end: int, expected: Reset) -> None:
    assert divergence.reset(10, start, end) == expected


def test_batches_from_a_later_leader_epoch_on_are_not_appended() -> None:
    batches = [Batch(1), Batch(2), Batch(3), Batch(2)]
    assert [divergence.batches_to_append(batches, epoch) for epoch in (0, 1, 2, 3)] == [0, 1, 2, 4]


def test_empty_log_starts_earlier_for_a_batch_that_contains_its_start() -> None:
    batch = BatchHeader(memoryview(make_batch(5, base_offset=10)), 0)
    assert divergence.offset_before_start(12, 12, batch) == 10
    assert divergence.offset_before_start(10, 10, batch) is None
    assert divergence.offset_before_start(15, 15, batch) is None
    assert divergence.offset_before_start(5, 12, batch) is None


def test_follower_follows_high_watermark_and_log_start_of_the_leader() -> None:
    assert [divergence.follower_high_watermark(leader, 10) for leader in (4, 10, 15)] == [4, 10, 10]
    assert [divergence.follower_log_start(leader, 3, 8) for leader in (1, 3, 5, 9)] == [3, 3, 5, 8]


@pytest.mark.parametrize(
    ("first", "first_end", "second", "second_end", "common"),
    [
        pytest.param([(0, 0)], 5, [(0, 0)], 3, 3, id="a prefix"),
        pytest.param([(0, 0), (1, 2)], 9, [(0, 0), (2, 4)], 9, 2, id="other epochs"),
        pytest.param([(0, 0), (3, 6)], 9, [(0, 0), (1, 4), (3, 6)], 9, 9, id="the same last epoch"),
        pytest.param([(1, 0)], 4, [(2, 0)], 4, 0, id="nothing"),
        pytest.param([], 0, [(2, 0)], 4, 0, id="empty"),
    ],
)
def test_largest_common_offset(
    first: list[tuple[int, int]], first_end: int, second: list[tuple[int, int]], second_end: int, common: int
) -> None:
    entries = [[EpochEntry(*each) for each in one] for one in (first, second)]
    assert divergence.largest_common_offset(entries[0], first_end, entries[1], second_end) == common
    assert divergence.largest_common_offset(entries[1], second_end, entries[0], first_end) == common
