"""From where to where micro-batches go, over a log that is made up."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kclient.errors import KafkaTimeoutError
from kclient.spark.errors import DataLossError, OptionError
from kclient.spark.micro_batches import MicroBatches
from kclient.spark.offsets import Offsets
from kclient.spark.options import ReadOptions
from kclient.spark.planning import Task
from kclient.types import OffsetAndMetadata, PartitionInfo, TopicPartition
from tests.support.logs import spark_messages

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("new", 0)


class Logs:
    """Where logs begin and end; a consumer and a watermark of them at once."""

    def __init__(self, first: Offsets, last: Offsets) -> None:
        self.first = first
        self.last = last
        self.seen: Offsets | None = None
        """What the watermark has, where it is behind."""
        self.groups: dict[tuple[str, int], Any] = {}
        self.asked_first = 0
        self.asked_last = 0
        self.uncommitted: Offsets = {}
        """Where logs end that open transactions hold back."""
        self.unlisted = 0
        """How often a broker is asked for topics that knows of none."""
        self.fails = False
        self.ids: dict[str, str] = {}
        self.asked_ids: list[list[str]] = []
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def look_up(self, options: ReadOptions, topics: Iterable[str]) -> dict[str, str]:
        self.asked_ids.append(list(topics))
        return {topic: self.ids.get(topic, "") for topic in self.asked_ids[-1]}

    # As a watermark.

    def latest(self) -> Offsets:
        return {**(self.last if self.seen is None else self.seen)}

    recent = latest

    def known(self) -> Offsets | None:
        return self.seen

    # As a consumer.

    @contextmanager
    def lend(self, options: ReadOptions) -> Iterator[Any]:
        self.config = SimpleNamespace(group_id=options.client.get("group.id"))
        self.isolation = options.client.get("isolation.level", "read_uncommitted")
        yield self

    def list_topics(self) -> dict[str, list[PartitionInfo]]:
        listed: dict[str, list[PartitionInfo]] = {}
        if self.unlisted:
            self.unlisted -= 1
            return listed
        for tp in self.last:
            listed.setdefault(tp.topic, []).append(PartitionInfo(tp.topic, tp.partition, 0, 0, (0,), (0,)))
        return listed

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        self.asked_first += 1
        return {tp: self.first.get(tp, 0) for tp in partitions}

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets:
        self.asked_last += 1
        last = self.last if self.isolation == "read_committed" else {**self.last, **self.uncommitted}
        return {tp: last[tp] for tp in partitions}

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return {tp: OffsetAndMetadata(self.groups[tp]) if tp in self.groups else None for tp in partitions}

    def commit(self, offsets: Mapping[tuple[str, int], int], timeout: float) -> None:
        if self.fails:
            raise KafkaTimeoutError("no coordinator")
        self.groups.update(offsets)


def parsed(dotted: dict[str, str] | None = None, **options: object) -> ReadOptions:
    every = {"kafka.bootstrap.servers": "k:1", "subscribePattern": ".*", **(dotted or {}), **options}
    return ReadOptions.parse({name: str(value) for name, value in every.items()}).for_stream()


def batches(logs: Logs, dotted: dict[str, str] | None = None, **options: object) -> MicroBatches:
    return MicroBatches(
        parsed(dotted, **options),
        watermark=logs,  # type: ignore[arg-type]
        lend=logs.lend,
        ids=logs.look_up,
        clock=logs.clock,
        pause=logs.pause,
    )


@pytest.fixture
def logs() -> Logs:
    return Logs({A: 0, B: 0}, {A: 10, B: 20})


def begun(a: int = 0, b: int = 0) -> dict[str, dict[str, int]]:
    return {"t": {"0": a, "1": b}}


# -- where a query starts


def test_a_start_that_cannot_change_is_resolved_at_once(logs: Logs) -> None:
    logs.first = {A: 3, B: 4}
    assert batches(logs, startingOffsets="earliest").initial() == begun(3, 4)
    given = json.dumps(begun(7, 8))
    assert batches(logs, startingOffsets=given).initial() == begun(7, 8)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, begun(10, 20)),
        ({"startingOffsets": "latest"}, begun(10, 20)),
        ({"startingOffsets": '{"t": {"0": -1, "1": -2}}'}, begun(10, 0)),
        ({"startingOffsets": "committed", "commitOffsetsToGroup": "g"}, begun(5, 0)),
    ],
)
def test_a_start_that_may_change_becomes_the_end_of_an_empty_micro_batch(
    logs: Logs, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    logs.groups = {A: 5}
    query = batches(logs, **options)
    start = query.initial()
    end = query.latest(start, most=1)
    assert end == expected
    assert query.tasks(start, end) == []
    # The query failed before the micro-batch was done: it is the same one afterwards, whatever came meanwhile.
    logs.last = {A: 100, B: 200}
    again = batches(logs, **options)
    assert again.initial() == start
    assert again.tasks(again.initial(), end) == []
    assert again.latest(end) == begun(100, 200)


def test_from_the_latest_offset_a_topic_that_appears_later_is_read_whole() -> None:
    logs = Logs({}, {})
    query = batches(logs, startingOffsets="latest")
    end = query.latest(query.initial())
    assert end == {}
    logs.last = {C: 3}
    assert query.tasks(end, query.latest(end)) == [Task("new", 0, 0, 3)]


def test_a_start_that_does_not_name_all_partitions_is_refused(logs: Logs) -> None:
    with pytest.raises(OptionError, match="t-1"):
        batches(logs, startingOffsets='{"t": {"0": 3}}').initial()


# -- where a micro-batch ends


def test_everything_is_taken_unless_there_is_a_limit(logs: Logs) -> None:
    query = batches(logs)
    assert query.latest(begun(4, 5)) == begun(10, 20)
    assert query.latest(begun(4, 5), most=7) == begun(6, 10)


def test_with_nothing_new_the_start_comes_back_as_it_was(logs: Logs) -> None:
    start = {"t": {"1": 20, "0": 10}}
    end = batches(logs).latest(start)
    assert json.dumps(end) == json.dumps(start)


def test_few_offsets_wait_for_more(logs: Logs) -> None:
    query = batches(logs, minOffsetsPerTrigger=10, maxTriggerDelay="30s")
    assert query.latest(begun(9, 20), least=10) == begun(10, 20)
    logs.last, logs.now = {A: 11, B: 21}, 29.0
    assert query.latest(begun(10, 20), least=10) == begun(10, 20)
    logs.now = 30.0
    assert query.latest(begun(10, 20), least=10) == begun(11, 21)
    logs.last = {A: 21, B: 21}
    assert query.latest(begun(11, 21), least=10) == begun(21, 21)


def test_a_query_that_ends_at_what_is_there_reads_no_further_and_waits_for_nothing(logs: Logs) -> None:
    query = batches(logs, minOffsetsPerTrigger=1000)
    query.end_at_latest()
    logs.last = {A: 50, B: 50, C: 50}
    end = query.latest(begun(0, 0), most=15, least=1000)
    assert end == begun(5, 10)
    end = query.latest(end, least=1000)
    assert end == begun(10, 20)
    assert query.latest(end) == end


def test_a_query_from_the_latest_offset_that_ends_at_what_is_there_starts_no_later(logs: Logs) -> None:
    query = batches(logs, startingOffsets="latest")
    query.end_at_latest()
    logs.last = {A: 11, B: 20, C: 5}
    end = query.latest(query.initial())
    assert end == begun(10, 20)
    assert query.latest(end) == end


# -- partitions come and go


def test_new_partitions_are_read_from_their_first_offset_requested_once(logs: Logs) -> None:
    logs.first[C] = 2
    logs.last[C] = 30
    query = batches(logs, minOffsetsPerTrigger=1000)
    query.latest(begun(9, 20), least=1000)
    logs.asked_first = 0
    for _ in range(3):
        assert query.latest(begun(10, 20), least=1000) == begun(10, 20)
    end = query.latest(begun(10, 20), most=7)
    assert logs.asked_first == 0
    assert end == {"new": {"0": 9}, **begun(10, 20)}
    assert query.tasks(begun(10, 20), end) == [Task("new", 0, 2, 9)]


def test_an_empty_new_partition_is_kept_in_the_checkpoint(logs: Logs) -> None:
    logs.last[C] = 0
    assert batches(logs).latest(begun(10, 20)) == {"new": {"0": 0}, **begun(10, 20)}


def test_a_new_partition_of_a_known_topic_that_has_lost_its_first_records_is_a_loss(logs: Logs) -> None:
    logs.first[B] = 4
    with pytest.raises(DataLossError, match="t-1: offsets 0 to 3 "):
        batches(logs).latest({"t": {"0": 10}})
    assert batches(logs, failOnDataLoss=False).latest({"t": {"0": 10}}) == begun(10, 20)


def test_a_partition_that_is_gone_is_a_loss(logs: Logs) -> None:
    del logs.last[B]
    with pytest.raises(DataLossError, match=r"t-1: offset 5 and later ones .*no longer exists"):
        batches(logs).latest(begun(0, 5))
    query = batches(logs, failOnDataLoss=False)
    end = query.latest(begun(0, 5))
    assert end == {"t": {"0": 10}}
    assert query.tasks(begun(0, 5), end) == [Task("t", 0, 0, 10)]


def test_a_partition_that_is_gone_before_its_micro_batch_is_planned_is_a_loss(logs: Logs) -> None:
    del logs.last[B]
    with pytest.raises(DataLossError, match=r"t-1: offsets 5 to 19 .*no longer exists"):
        batches(logs).tasks(begun(0, 5), begun(10, 20))
    assert batches(logs, failOnDataLoss=False).tasks(begun(0, 5), begun(10, 20)) == [Task("t", 0, 0, 10)]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("held", [True, False])
def test_a_partition_that_a_broker_does_not_know_of_for_a_moment_is_not_gone(
    logs: Logs, strict: bool, held: bool
) -> None:
    query = batches(logs, failOnDataLoss=strict)
    logs.seen, logs.unlisted = {A: 10}, 2
    if held:
        query.end_at_latest()
    end = query.latest(begun(4, 5))
    assert end == begun(10, 20)
    logs.unlisted = 2
    assert query.tasks(begun(4, 5), end) == [Task("t", 0, 4, 10), Task("t", 1, 5, 20)]
    assert query.latest(end) == end
    assert logs.asked_first == 1


def test_a_partition_is_gone_after_it_was_missed_for_some_seconds(logs: Logs) -> None:
    logs.seen, logs.unlisted = {A: 10}, 100
    assert batches(logs, failOnDataLoss=False).latest(begun(4, 5)) == {"t": {"0": 10}}
    assert logs.now >= 3


def test_a_log_that_ends_before_the_place_of_the_query_is_a_loss(logs: Logs) -> None:
    logs.last[B] = 3
    with pytest.raises(DataLossError, match=r"t-1: offsets 3 to 19 .*now has offsets 0 to 2"):
        batches(logs).latest(begun(10, 20))
    query = batches(logs, failOnDataLoss=False)
    end = query.latest(begun(10, 20))
    assert end == begun(10, 3)
    assert query.tasks(begun(10, 20), end) == []
    logs.last[B] = 6
    assert query.tasks(end, query.latest(end)) == [Task("t", 1, 3, 6)]


def test_a_watermark_that_is_behind_is_no_loss(logs: Logs) -> None:
    logs.seen = {A: 8, B: 20}
    assert batches(logs).latest(begun(10, 20)) == begun(10, 20)


@pytest.mark.parametrize("strict", [True, False])
def test_a_place_after_an_open_transaction_waits_for_its_end(logs: Logs, strict: bool) -> None:
    committed = {"kafka.isolation.level": "read_committed"}
    query = batches(logs, committed, failOnDataLoss=strict)
    logs.last, logs.uncommitted = {A: 10, B: 12}, {B: 20}
    assert query.latest(begun(10, 20)) == begun(10, 20)
    assert query.latest(begun(10, 20)) == begun(10, 20)
    assert logs.asked_last == 1
    logs.last[A] = 11
    end = query.latest(begun(10, 20))
    assert end == begun(11, 20)
    assert query.tasks(begun(10, 20), end) == [Task("t", 0, 10, 11)]
    # Planned by who read without regard to transactions: the task waits.
    assert query.tasks(begun(11, 15), begun(11, 20)) == [Task("t", 1, 15, 20)]


def test_a_log_that_was_cut_off_continues_before_an_open_transaction(logs: Logs) -> None:
    committed = {"kafka.isolation.level": "read_committed"}
    logs.last, logs.uncommitted = {A: 10, B: 12}, {B: 15}
    with pytest.raises(DataLossError, match=r"t-1: offsets 15 to 19 .*now has offsets 0 to 14"):
        batches(logs, committed).latest(begun(10, 20))
    assert batches(logs, committed, failOnDataLoss=False).latest(begun(10, 20)) == begun(10, 12)


def test_records_that_retention_took_are_a_loss(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    logs.first[A] = 6
    with pytest.raises(DataLossError, match="t-0: offsets 2 to 5 "):
        batches(logs).tasks(begun(2, 20), begun(10, 20))
    with caplog.at_level(logging.WARNING):
        assert batches(logs, failOnDataLoss=False).tasks(begun(2, 20), begun(10, 20)) == [Task("t", 0, 6, 10)]
    assert "t-0: offsets 2 to 5 " in caplog.text


# -- tasks, progress, commits


def test_tasks_are_divided_as_the_options_say(logs: Logs) -> None:
    query = batches(logs, minPartitions=3)
    assert query.tasks(begun(0, 0), begun(10, 20)) == [
        Task("t", 0, 0, 10),
        Task("t", 1, 0, 10),
        Task("t", 1, 10, 20),
    ]


def test_between_equal_offsets_nobody_is_asked(logs: Logs) -> None:
    logs.last = {}
    assert batches(logs).tasks(begun(10, 20), begun(10, 20)) == []
    assert logs.asked_first == 0


def test_progress_has_what_was_seen_last(logs: Logs) -> None:
    query = batches(logs)
    assert query.reported() is None
    logs.seen = {A: 12, B: 20}
    assert query.reported() == begun(12, 20)


def test_a_pattern_that_matches_nothing_yet_is_logged_when_the_query_begins(
    logs: Logs, caplog: pytest.LogCaptureFixture
) -> None:
    logs.last = {}
    query = batches(logs, subscribePattern="later-.*", startingOffsets="earliest")
    assert query.initial() == {}
    assert "subscribePattern 'later-.*' matches no topic on k:1, so there is nothing to read" in caplog.text
    caplog.clear()
    logs.last = {C: 4}
    assert query.latest({}) == {"new": {"0": 4}}
    assert not spark_messages(caplog)


def test_offsets_are_committed_only_where_that_is_asked_for(logs: Logs) -> None:
    batches(logs, {"kafka.group.id": "g"}).commit(begun(10, 20))
    assert logs.groups == {}
    batches(logs, commitOffsetsToGroup="g").commit(begun(10, 20))
    assert logs.groups == {A: 10, B: 20}


def test_what_is_processed_shows_before_there_is_more(logs: Logs) -> None:
    query = batches(logs, commitOffsetsToGroup="g")
    assert query.latest(begun(10, 20)) == begun(10, 20)
    assert logs.groups == {A: 10, B: 20}
    logs.groups = {}
    query.latest(begun(10, 20))
    query.commit(begun(10, 20))
    assert logs.groups == {}


def test_a_commit_that_fails_is_reported_and_ends_nothing(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    logs.fails = True
    batches(logs, commitOffsetsToGroup="g").commit(begun(10, 20))
    assert "was not committed to group g" in caplog.text


# -- options


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="endingOffsets is for batches"):
        parsed(endingOffsets="latest")


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(OptionError, match="minOffsetsPerTrigger=9 is more than maxOffsetsPerTrigger=8"):
        parsed(minOffsetsPerTrigger=9, maxOffsetsPerTrigger=8)


# -- topics that are others than they were


OLD: dict[str, dict[str, Any]] = {"t/old": {}}
NEW: dict[str, dict[str, Any]] = {"t/new": {}}


def test_ids_are_kept_beside_the_offsets_and_asked_for_once(logs: Logs) -> None:
    logs.ids = {"t": "old"}
    made = batches(logs)
    assert made.latest(begun(1, 1) | OLD) == begun(10, 20) | OLD
    logs.last = {A: 11, B: 20}
    assert made.latest(begun(10, 20) | OLD) == begun(11, 20) | OLD
    assert [
        (task.partition, task.start, task.end) for task in made.tasks(begun(10, 20) | OLD, begun(11, 20) | OLD)
    ] == [(0, 10, 11)]
    assert logs.asked_ids == [["t"]]
    assert batches(logs, startingOffsets="earliest").initial() == begun(0, 0) | OLD


def test_offsets_without_ids_continue_and_get_them(logs: Logs) -> None:
    logs.ids = {"t": "old"}
    made = batches(logs)
    assert made.latest(begun(10, 20)) == begun(10, 20)
    assert made.latest(begun(1, 1)) == begun(10, 20) | OLD
    logs.ids = {}
    assert batches(logs).latest(begun(1, 1) | OLD) == begun(10, 20)


def test_a_topic_that_was_created_again_and_is_longer_than_before_is_a_loss(logs: Logs) -> None:
    logs.ids = {"t": "new"}
    with pytest.raises(
        DataLossError, match=r"t-0: offset 3 and later ones \(the topic was deleted and created again\)"
    ) as raised:
        batches(logs).latest(begun(3, 4) | OLD)
    assert [one.partition for one in raised.value.lost] == [A, B]


def test_a_recreated_topic_is_read_from_its_beginning_if_losses_are_permitted(logs: Logs) -> None:
    logs.ids = {"t": "new"}
    logs.first = {A: 2, B: 0}
    made = batches(logs, failOnDataLoss="false")
    end = made.latest(begun(3, 4) | OLD)
    assert end == begun(10, 20) | NEW
    tasks = made.tasks(begun(3, 4) | OLD, end)
    assert [(task.partition, task.start, task.end) for task in tasks] == [(0, 2, 10), (1, 0, 20)]
    assert made.latest(end) == end


def test_a_topic_recreated_during_a_query_is_detected_by_its_shorter_partitions(logs: Logs) -> None:
    logs.ids = {"t": "old"}
    made = batches(logs, failOnDataLoss="false")
    assert made.latest(begun(1, 1) | OLD) == begun(10, 20) | OLD
    logs.ids = {"t": "new"}
    logs.last = {A: 3, B: 30}
    end = made.latest(begun(10, 20) | OLD)
    assert end == begun(3, 30) | NEW
    assert [(task.partition, task.start, task.end) for task in made.tasks(begun(10, 20) | OLD, end)] == [
        (0, 0, 3),
        (1, 0, 30),
    ]


@pytest.mark.parametrize("held", [False, True])
def test_a_topic_recreated_and_refilled_between_lookups_is_read_from_its_beginning(logs: Logs, held: bool) -> None:
    logs.ids = {"t": "old"}
    made, strict = batches(logs, failOnDataLoss="false"), batches(logs)
    if held:
        logs.last = {A: 50, B: 50}
        for one in (made, strict):
            one.end_at_latest()
    reached = made.latest(begun(1, 1) | OLD, 20)
    assert strict.latest(begun(1, 1) | OLD, 20) == reached
    logs.ids, logs.last, logs.now = {"t": "new"}, {A: 30, B: 30}, 1.0
    with pytest.raises(DataLossError, match="the topic was deleted and created again"):
        strict.latest(reached)
    end = made.latest(reached)
    assert end == begun(30, 30) | NEW
    assert [(task.start, task.end) for task in made.tasks(reached, end)] == [(0, 30), (0, 30)]


def test_an_idle_query_asks_for_no_ids(logs: Logs) -> None:
    logs.ids = {"t": "old"}
    made = batches(logs)
    reached = made.latest(begun(1, 1) | OLD)
    logs.now = 9.0
    assert made.latest(reached) == reached
    assert logs.asked_ids == [["t"]]


def test_a_topic_that_comes_back_is_another_one(logs: Logs) -> None:
    logs.ids = {"t": "old", "new": "first"}
    logs.last[C] = 5
    made = batches(logs, failOnDataLoss="false")
    with_it = {"new": {"0": 5}, "new/first": {}, **begun(10, 20), **OLD}
    assert made.latest(begun(10, 20) | OLD) == with_it
    del logs.last[C]
    assert made.latest(with_it) == begun(10, 20) | OLD
    logs.last[C], logs.ids["new"] = 7, "second"
    assert made.latest(begun(10, 20) | OLD) == {"new": {"0": 7}, "new/second": {}, **begun(10, 20), **OLD}


def test_a_planned_micro_batch_of_a_topic_that_was_recreated_is_a_loss(logs: Logs) -> None:
    logs.ids = {"t": "new"}
    with pytest.raises(DataLossError, match=r"t-1: offsets 4 to 5 \(the topic was deleted and created again\)"):
        batches(logs).tasks(begun(3, 4) | OLD, begun(3, 6) | OLD)
    lenient = batches(logs, failOnDataLoss="false")
    assert lenient.tasks(begun(3, 4) | OLD, begun(3, 6) | OLD) == []
    assert lenient.latest(begun(3, 6) | OLD, 1) == begun(1, 1) | NEW
