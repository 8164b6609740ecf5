"""The partitions of a fetcher: what is requested, and what follows from each answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from refbroker.log.leader_epochs import EpochEntry
from refbroker.replication.fetcher import (
    Append,
    Appended,
    FetchAnswer,
    Fetcher,
    FetchState,
    FindOffsets,
    Restart,
    Truncate,
)
from tests.refbroker.replication.machines import FigureLog

TOPIC_ID = UUID(int=9)
KEY = ("orders", 0)
OUT_OF_RANGE, FENCED, UNKNOWN_EPOCH, NOT_LEADER = 1, 74, 75, 6


@dataclass
class ListThrottle:
    """A throttle that holds back partitions out of sync."""

    held: set[int] = field(default_factory=set)

    def holds_back(self, _topic: str, partition: int, _now_ms: int, *, in_sync: bool) -> bool:
        return partition in self.held and not in_sync


class Rig:
    """A fetcher of orders-0, whose log ends at 10 with epoch 2."""

    def __init__(self) -> None:
        self.throttle = ListThrottle()
        self.failed: list[tuple[str, int]] = []
        self.fetcher = Fetcher(1000, self.throttle, self.failed.append)
        self.log = FigureLog(log_end_offset=10, high_watermark=8, leader_epoch=2)
        self.log.ends = {1: EpochEntry(1, 6), 2: EpochEntry(2, 10)}
        self.fetcher.follow("orders", 0, TOPIC_ID, 3, self.log)

    def answer(self, answer: FetchAnswer, now_ms: int = 0) -> object:
        (sent,) = self.fetcher.targets(now_ms)
        return self.fetcher.on_answer(sent, answer, now_ms)

    @property
    def state(self) -> FetchState:
        return self.fetcher.partitions[KEY].state


def test_request_has_log_end_last_epoch_and_leader_epoch() -> None:
    (target,) = Rig().fetcher.targets(0)
    assert (target.key, target.topic_id) == (KEY, TOPIC_ID)
    assert (target.leader_epoch, target.fetch_offset, target.last_fetched_epoch) == (3, 10, 2)


def test_records_are_appended_and_the_next_fetch_follows_them() -> None:
    rig = Rig()
    (sent,) = rig.fetcher.targets(0)
    answer = FetchAnswer(0, None, 12, 4)
    assert rig.fetcher.on_answer(sent, answer, 0) == Append(KEY, 3)
    rig.log.log_end_offset, rig.log.leader_epoch = 15, 3
    assert rig.fetcher.appended(sent, answer, 0) == Appended(high_watermark=12, log_start_offset=4)
    (target,) = rig.fetcher.targets(0)
    assert (target.fetch_offset, target.last_fetched_epoch) == (15, 3)


def test_high_watermark_of_a_follower_is_at_most_its_log_end() -> None:
    rig = Rig()
    (sent,) = rig.fetcher.targets(0)
    answer = FetchAnswer(0, None, 30, 11)
    rig.fetcher.on_answer(sent, answer, 0)
    assert rig.fetcher.appended(sent, answer, 0) == Appended(high_watermark=10, log_start_offset=10)


def test_diverging_epoch_truncates_and_fetches_again() -> None:
    rig = Rig()
    assert rig.answer(FetchAnswer(0, EpochEntry(1, 9))) == Truncate(KEY, 6)
    rig.log.log_end_offset, rig.log.leader_epoch = 6, 1
    rig.fetcher.truncated(KEY)
    (target,) = rig.fetcher.targets(0)
    assert (target.fetch_offset, target.last_fetched_epoch) == (6, 1)


def test_log_without_epochs_is_truncated_to_its_high_watermark_first() -> None:
    rig = Rig()
    log = FigureLog(log_end_offset=10, high_watermark=8)
    assert rig.fetcher.follow("orders", 1, TOPIC_ID, 3, log) == Truncate(("orders", 1), 8)


def test_answer_of_an_earlier_leader_epoch_is_ignored() -> None:
    rig = Rig()
    (sent,) = rig.fetcher.targets(0)
    rig.fetcher.follow("orders", 0, TOPIC_ID, 4, rig.log)
    assert rig.fetcher.on_answer(sent, FetchAnswer(0, None, 12, 0), 0) is None
    assert rig.fetcher.appended(sent, FetchAnswer(0, None, 12, 0), 0) is None


def test_answer_for_another_offset_is_ignored() -> None:
    rig = Rig()
    (sent,) = rig.fetcher.targets(0)
    rig.log.log_end_offset = 6
    rig.fetcher.truncated(KEY)
    assert rig.fetcher.on_answer(sent, FetchAnswer(0, None, 12, 0), 0) is None


def test_following_in_the_same_leader_epoch_changes_nothing() -> None:
    rig = Rig()
    before = rig.fetcher.partitions[KEY]
    rig.fetcher.follow("orders", 0, TOPIC_ID, 3, rig.log)
    assert rig.fetcher.partitions[KEY] is before


@pytest.mark.parametrize("error_code", [UNKNOWN_EPOCH, NOT_LEADER, 3, 56])
def test_other_errors_delay_a_partition(error_code: int) -> None:
    rig = Rig()
    assert rig.answer(FetchAnswer(error_code), 500) is None
    assert rig.state is FetchState.DELAYED
    assert rig.fetcher.next_due_ms() == 1500
    assert rig.fetcher.targets(1499) == []
    assert len(rig.fetcher.targets(1500)) == 1
    assert rig.fetcher.next_due_ms() is None


def test_lost_request_delays_its_partitions() -> None:
    rig = Rig()
    rig.fetcher.on_failure(rig.fetcher.targets(0), 0)
    assert rig.state is FetchState.DELAYED


def test_fenced_partition_waits_for_a_new_leader_epoch() -> None:
    rig = Rig()
    assert rig.answer(FetchAnswer(FENCED)) is None
    assert (rig.state, rig.failed) == (FetchState.FAILED, [KEY])
    assert rig.fetcher.targets(10**9) == []
    rig.fetcher.follow("orders", 0, TOPIC_ID, 4, rig.log)
    assert len(rig.fetcher.targets(0)) == 1


@pytest.mark.parametrize(
    ("start", "end", "action"),
    [
        pytest.param(0, 7, Truncate(KEY, 7), id="the leader has less"),
        pytest.param(20, 30, Restart(KEY, 20), id="the leader starts later"),
        pytest.param(5, 30, None, id="within"),
    ],
)
def test_offset_out_of_range_asks_for_the_offsets_of_the_leader(start: int, end: int, action: object) -> None:
    rig = Rig()
    asked = rig.answer(FetchAnswer(OUT_OF_RANGE))
    assert asked == FindOffsets(KEY, 3)
    assert isinstance(asked, FindOffsets)
    assert rig.fetcher.targets(0) == []
    assert rig.fetcher.on_offsets(asked, start, end) == action
    assert len(rig.fetcher.targets(0)) == 1


def test_error_of_the_offsets_delays_a_partition() -> None:
    rig = Rig()
    asked = rig.answer(FetchAnswer(OUT_OF_RANGE))
    assert isinstance(asked, FindOffsets)
    rig.fetcher.on_offsets_error(asked, NOT_LEADER, 0)
    assert rig.state is FetchState.DELAYED
    assert rig.fetcher.on_offsets(asked, 0, 7) is None


def test_partition_whose_disk_failed_is_no_longer_fetched() -> None:
    rig = Rig()
    rig.fetcher.on_storage_error(KEY)
    assert (rig.state, rig.failed) == (FetchState.FAILED, [KEY])


def test_throttled_partition_is_not_requested_until_it_is_in_sync() -> None:
    rig = Rig()
    rig.throttle.held = {0}
    assert rig.fetcher.targets(0) == []
    rig.fetcher.partitions[KEY].lag = 0
    assert len(rig.fetcher.targets(0)) == 1


def test_partition_that_got_records_goes_behind_the_others() -> None:
    rig = Rig()
    rig.fetcher.follow("orders", 1, TOPIC_ID, 3, FigureLog())
    first = rig.fetcher.targets(0)[0]
    answer = FetchAnswer(0, None, 12, 0)
    rig.fetcher.on_answer(first, answer, 0)
    rig.log.log_end_offset = 11
    rig.fetcher.appended(first, answer, 0)
    assert [target.partition for target in rig.fetcher.targets(0)] == [1, 0]


def test_forgotten_partition_is_not_fetched() -> None:
    rig = Rig()
    rig.fetcher.forget(KEY)
    assert rig.fetcher.targets(0) == []
    rig.fetcher.forget(KEY)
