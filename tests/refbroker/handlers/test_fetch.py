"""Fetch: size limits, waiting, sessions, epochs."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest

from kclient.errors import (
    FencedLeaderEpochError,
    FetchSessionIdNotFoundError,
    InconsistentTopicIdError,
    InvalidFetchSessionEpochError,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.records.metadata_log import RemoveTopicRecord
from kclient.records import read_batches
from tests.support.broker_harness import Harness

HUGE = 1 << 30


def want(topic_id: UUID, *partitions: int, offset: int = 0, max_bytes: int = HUGE, **more: Any) -> Any:
    return FetchRequest.FetchTopic(
        topic_id=topic_id,
        partitions=[
            FetchRequest.FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=max_bytes, **more)
            for n in partitions
        ],
    )


def fetch(harness: Harness, *topics: Any, version: int = 17, **more: Any) -> Any:
    options = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": HUGE, "session_epoch": -1, **more}
    return harness.send(FetchRequest(topics=list(topics), **options), version)


def partitions(answer: Any) -> dict[int, Any]:
    return {data.partition_index: data for topic in answer.responses for data in topic.partitions}


def values(data: Any) -> list[bytes | None]:
    return [record.value for batch in read_batches(data.records) for record in batch.records()]


async def test_what_was_produced_comes_back(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.produce("t", b"a", b"b")
    harness.produce("t", b"c")
    data = partitions(fetch(harness, want(topic_id, 0)))[0]
    assert values(data) == [b"a", b"b", b"c"]
    assert (data.error_code, data.high_watermark, data.last_stable_offset, data.log_start_offset) == (0, 3, 3, 0)
    by_name = FetchRequest.FetchTopic(
        topic="t", partitions=[FetchRequest.FetchPartition(fetch_offset=2, partition_max_bytes=HUGE)]
    )
    assert values(partitions(fetch(harness, by_name, version=4))[0]) == [b"c"]


async def test_the_first_batch_comes_whole_however_small_the_limits_are(harness: Harness) -> None:
    topic_id = harness.create("t", 3)
    for partition in (1, 2):
        harness.produce("t", b"x" * 10_000, partition=partition)
    answer = partitions(fetch(harness, want(topic_id, 0, 1, 2, max_bytes=1), max_bytes=1))
    assert [len(values(answer[number])) for number in (0, 1, 2)] == [0, 1, 0]


async def test_all_partitions_together_keep_to_the_limit(harness: Harness) -> None:
    topic_id = harness.create("t", 4)
    for partition in range(4):
        for _ in range(10):
            harness.produce("t", b"x" * 1000, partition=partition)
    answer = fetch(harness, want(topic_id, 0, 1, 2, 3, max_bytes=8000), max_bytes=20_000)
    sizes = [len(data.records) for data in partitions(answer).values()]
    assert sizes == [8000, 8000, 4000, 0]


async def test_the_brokers_own_limit_goes_first(harness: Harness) -> None:
    harness.broker.config.fetch_max_bytes = 1500
    topic_id = harness.create("t")
    for _ in range(10):
        harness.produce("t", b"x" * 1000)
    assert len(partitions(fetch(harness, want(topic_id, 0)))[0].records) == 1500


async def everything_due() -> None:
    """Let the loop run what is due, and what that makes due."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_fetch_waits_for_the_next_batch(harness: Harness) -> None:
    topic_id = harness.create("t")
    waiting = fetch(harness, want(topic_id, 0), max_wait_ms=20_000)
    await everything_due()
    assert not waiting.done()
    assert len(harness.broker.delayed_fetches) == 1
    harness.produce("t", b"now")
    assert values(partitions(await waiting)[0]) == [b"now"]
    assert len(harness.broker.delayed_fetches) == 0


async def test_a_fetch_waits_for_min_bytes(harness: Harness) -> None:
    topic_id = harness.create("t", 2)
    harness.produce("t", b"x" * 1000)
    waiting = fetch(harness, want(topic_id, 0, 1), max_wait_ms=20_000, min_bytes=3000)
    harness.produce("t", b"x" * 1000, partition=1)
    await everything_due()
    assert not waiting.done()
    harness.produce("t", b"x" * 1000)
    answer = partitions(await waiting)
    assert [len(values(answer[number])) for number in (0, 1)] == [2, 1]


async def test_after_the_wait_it_is_answered_with_what_there_is(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.produce("t", b"a")
    answer = await fetch(harness, want(topic_id, 0), max_wait_ms=5, min_bytes=HUGE)
    assert values(partitions(answer)[0]) == [b"a"]


async def test_an_error_does_not_wait(harness: Harness) -> None:
    topic_id = harness.create("t", 2)
    answer = fetch(harness, want(topic_id, 0), want(topic_id, 1, offset=5), max_wait_ms=20_000)
    assert partitions(answer)[1].error_code == OffsetOutOfRangeError.code


async def test_what_does_not_exist_does_not_wait_alone_and_lets_others_wait(harness: Harness) -> None:
    topic_id = harness.create("t")
    unknown = want(UUID(int=77), 3)
    alone = partitions(fetch(harness, unknown, want(topic_id, 9), max_wait_ms=20_000))
    assert {number: data.error_code for number, data in alone.items()} == {
        3: UnknownTopicIdError.code,
        9: UnknownTopicOrPartitionError.code,
    }
    for offset, isolation_level in enumerate((0, 1)):
        waiting = fetch(
            harness,
            unknown,
            want(topic_id, 9, 0, offset=2 * offset),
            max_wait_ms=20_000,
            min_bytes=200,
            isolation_level=isolation_level,
        )
        harness.produce("t", b"a")
        await asyncio.sleep(0)
        assert not waiting.done()
        harness.produce("t", b"b" * 200)
        answer = await waiting
        codes = [(data.partition_index, data.error_code) for topic in answer.responses for data in topic.partitions]
        # What was read comes first, then the unknown topics.
        assert codes == [(0, 0), (3, UnknownTopicIdError.code), (9, UnknownTopicOrPartitionError.code)]


async def test_deleting_the_topic_ends_the_wait(harness: Harness) -> None:
    topic_id = harness.create("t")
    for isolation_level in (0, 1):
        waiting = fetch(harness, want(topic_id, 0), max_wait_ms=20_000, isolation_level=isolation_level)
        harness.broker.controller.append([RemoveTopicRecord(topic_id=topic_id)])
        # Its name was known when the wait began, and it is the name that is no longer there.
        assert partitions(await waiting)[0].error_code == UnknownTopicOrPartitionError.code
        topic_id = harness.create("t")


async def test_what_cannot_be_read_is_an_error_of_its_partition(harness: Harness) -> None:
    topic_id = harness.create("t", 2)
    harness.restart()
    harness.produce("t", b"a")
    answer = fetch(harness, want(UUID(int=77), 0), want(topic_id, 0))
    codes = [data.error_code for topic in answer.responses for data in topic.partitions]
    assert codes == [0, UnknownTopicIdError.code]
    for more, code in (
        ({"offset": 5}, OffsetOutOfRangeError.code),
        ({"current_leader_epoch": 0}, FencedLeaderEpochError.code),
        ({"current_leader_epoch": 3}, UnknownLeaderEpochError.code),
        # A crash takes two: in the first one there is no leader.
        ({"current_leader_epoch": 2}, 0),
    ):
        data = partitions(fetch(harness, want(topic_id, 0, **more)))[0]
        assert data.error_code == code, more
        if code == FencedLeaderEpochError.code:
            assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, 2)


async def test_an_older_fetch_is_refused_without_the_leaders_name(harness: Harness) -> None:
    harness.create("t")
    harness.restart()
    stale = FetchRequest.FetchPartition(current_leader_epoch=0, partition_max_bytes=HUGE)
    answer = fetch(harness, FetchRequest.FetchTopic(topic="t", partitions=[stale]), version=12)
    assert partitions(answer)[0].error_code == FencedLeaderEpochError.code
    assert answer.node_endpoints == []


async def test_a_reader_of_another_history_learns_where_the_two_part(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.produce("t", b"a", b"b")
    harness.restart()
    harness.restart()
    harness.produce("t", b"c")
    same = partitions(fetch(harness, want(topic_id, 0, offset=2, last_fetched_epoch=0)))[0]
    assert (same.diverging_epoch.epoch, values(same)) == (-1, [b"c"])
    # Epoch 1 had no records here: all that is known ends with epoch 0.
    other = partitions(fetch(harness, want(topic_id, 0, offset=3, last_fetched_epoch=1)))[0]
    assert (other.diverging_epoch.epoch, other.diverging_epoch.end_offset, len(other.records)) == (0, 2, 0)
    beyond = partitions(fetch(harness, want(topic_id, 0, offset=3, last_fetched_epoch=0)))[0]
    assert (beyond.diverging_epoch.epoch, beyond.diverging_epoch.end_offset) == (0, 2)


async def test_an_empty_partition_is_read_from_its_current_epoch(harness: Harness) -> None:
    topic_id = harness.create("t")
    # A crash takes two epochs: in the first one there is no leader.
    for epoch in (0, 2, 4):
        for earlier in range(epoch + 1):
            data = partitions(fetch(harness, want(topic_id, 0, last_fetched_epoch=earlier)))[0]
            assert (data.error_code, data.diverging_epoch.epoch) == (0, -1)
        newer = partitions(fetch(harness, want(topic_id, 0, last_fetched_epoch=epoch + 1)))[0]
        assert newer.error_code == OffsetOutOfRangeError.code
        harness.restart()


async def test_a_session_answers_with_what_changed(harness: Harness) -> None:
    topic_id = harness.create("t", 3)
    first = fetch(harness, want(topic_id, 0, 1, 2), session_epoch=0)
    assert sorted(partitions(first)) == [0, 1, 2]
    session = first.session_id
    assert session > 0
    assert fetch(harness, session_id=session, session_epoch=1).responses == []
    harness.produce("t", b"a", partition=1)
    second = fetch(harness, session_id=session, session_epoch=2)
    assert {number: values(data) for number, data in partitions(second).items()} == {1: [b"a"]}
    third = fetch(harness, want(topic_id, 1, offset=1), session_id=session, session_epoch=3)
    assert third.responses == []
    forgotten = FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[1])
    harness.produce("t", b"b", partition=1)
    fourth = fetch(harness, session_id=session, session_epoch=4, forgotten_topics_data=[forgotten])
    assert fourth.responses == []


async def test_a_session_knows_its_topics_by_the_names_they_had(harness: Harness) -> None:
    topic_id = harness.create("t")
    session = fetch(harness, want(topic_id, 0), session_epoch=0).session_id
    harness.broker.controller.append([RemoveTopicRecord(topic_id=topic_id)])
    codes = []
    for epoch, topics in enumerate(([], [want(topic_id, 0)]), start=1):
        answer = fetch(harness, *topics, session_id=session, session_epoch=epoch)
        codes.append(partitions(answer)[0].error_code)
    assert codes == [UnknownTopicOrPartitionError.code] * 2
    harness.create("t")
    for epoch, topics in enumerate(([], [want(topic_id, 0)]), start=3):
        answer = fetch(harness, *topics, session_id=session, session_epoch=epoch)
        assert partitions(answer)[0].error_code == InconsistentTopicIdError.code
        assert [topic.topic_id for topic in answer.responses] == [topic_id]
    # Without a session there is only the id.
    assert partitions(fetch(harness, want(topic_id, 0)))[0].error_code == UnknownTopicIdError.code


async def test_a_session_from_which_everything_was_taken_ends(harness: Harness) -> None:
    topic_id = harness.create("t")
    session = fetch(harness, want(topic_id, 0), session_epoch=0).session_id
    forgotten = [FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[0])]
    answer = fetch(harness, session_id=session, session_epoch=1, forgotten_topics_data=forgotten)
    assert (answer.error_code, answer.session_id, answer.responses) == (0, 0, [])
    ended = fetch(harness, want(topic_id, 0), session_id=session, session_epoch=2)
    assert ended.error_code == FetchSessionIdNotFoundError.code


async def test_a_session_that_continued_meanwhile_does_not_answer_who_waited(harness: Harness) -> None:
    topic_id = harness.create("t")
    session = fetch(harness, want(topic_id, 0), session_epoch=0).session_id
    overtaken = fetch(harness, session_id=session, session_epoch=1, max_wait_ms=20_000)
    waiting = fetch(harness, session_id=session, session_epoch=2, max_wait_ms=20_000)
    harness.produce("t", b"a")
    answer = await overtaken
    assert (answer.error_code, answer.session_id) == (InvalidFetchSessionEpochError.code, session)
    assert answer.responses == []
    assert values(partitions(await waiting)[0]) == [b"a"]


async def test_a_partition_that_gave_records_is_read_last_the_next_time(harness: Harness) -> None:
    topic_id = harness.create("t", 2)
    for partition in (0, 1):
        harness.produce("t", b"x" * 1000, partition=partition)
    answer = fetch(harness, want(topic_id, 0, 1), session_epoch=0, max_bytes=1)
    session = answer.session_id
    assert [len(data.records) > 0 for data in partitions(answer).values()] == [True, False]
    # Not even told to continue, the other one has its turn.
    again = fetch(harness, session_id=session, session_epoch=1, max_bytes=1)
    assert list(partitions(again)) == [1]


async def test_a_wrong_session_or_epoch_is_refused(harness: Harness) -> None:
    topic_id = harness.create("t")
    assert fetch(harness, session_id=99, session_epoch=1).error_code == FetchSessionIdNotFoundError.code
    session = fetch(harness, want(topic_id, 0), session_epoch=0).session_id
    assert fetch(harness, session_id=session, session_epoch=2).error_code == InvalidFetchSessionEpochError.code
    closed = fetch(harness, want(topic_id, 0), session_id=session, session_epoch=-1)
    assert (closed.error_code, closed.session_id) == (0, 0)
    assert fetch(harness, session_id=session, session_epoch=1).error_code == FetchSessionIdNotFoundError.code


async def test_a_session_that_waits_is_woken_for_a_partition_it_remembers(harness: Harness) -> None:
    topic_id = harness.create("t", 2)
    session = fetch(harness, want(topic_id, 0, 1), session_epoch=0).session_id
    waiting = fetch(harness, session_id=session, session_epoch=1, max_wait_ms=20_000)
    harness.produce("t", b"a", partition=1)
    assert {number: values(data) for number, data in partitions(await waiting).items()} == {1: [b"a"]}


# Replicas

FOLLOWER = 7


def follower(epoch: int = -1, **more: Any) -> dict[str, Any]:
    return {"replica_state": FetchRequest.ReplicaState(replica_id=FOLLOWER, replica_epoch=epoch), **more}


async def test_consumers_see_nothing_above_the_high_watermark(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.produce("t", b"a")
    harness.assign("t", FOLLOWER, in_sync=True)
    harness.produce("t", b"b", acks=1)
    for isolation_level in (0, 1):
        data = partitions(fetch(harness, want(topic_id, 0), isolation_level=isolation_level))[0]
        assert (values(data), data.high_watermark, data.last_stable_offset) == ([b"a"], 1, 1)
        above = partitions(fetch(harness, want(topic_id, 0, offset=2), isolation_level=isolation_level))[0]
        assert (above.error_code, values(above)) == (0, [])


@pytest.mark.parametrize(("replica", "found"), [(FOLLOWER, [b"a"]), (-2, [])], ids=["follower", "debugging"])
async def test_followers_alone_read_up_to_the_log_end(harness: Harness, replica: int, found: list[bytes]) -> None:
    topic_id = harness.create("t")
    harness.assign("t", FOLLOWER, in_sync=True)
    harness.produce("t", b"a", acks=1)
    state = FetchRequest.ReplicaState(replica_id=replica)
    data = partitions(fetch(harness, want(topic_id, 0), replica_state=state, isolation_level=1))[0]
    assert (values(data), data.high_watermark) == (found, 0)
    by_name = FetchRequest.FetchTopic(topic="t", partitions=[FetchRequest.FetchPartition(partition_max_bytes=HUGE)])
    assert values(partitions(fetch(harness, by_name, version=12, replica_id=replica))[0]) == found


async def test_a_broker_without_the_partition_is_no_follower(harness: Harness) -> None:
    topic_id = harness.create("t")
    data = partitions(fetch(harness, want(topic_id, 0), **follower()))[0]
    assert data.error_code == NotLeaderOrFollowerError.code
    data = partitions(fetch(harness, want(topic_id, 0, current_leader_epoch=0), **follower()))[0]
    assert data.error_code == UnknownLeaderEpochError.code


async def test_a_follower_with_an_old_broker_epoch_is_refused(harness: Harness) -> None:
    topic_id = harness.create("t")
    own = harness.broker.node_id
    for epoch, code in (
        (harness.broker.broker_epoch - 1, NotLeaderOrFollowerError.code),
        (harness.broker.broker_epoch, 0),
        (-1, 0),
    ):
        state = FetchRequest.ReplicaState(replica_id=own, replica_epoch=epoch)
        assert partitions(fetch(harness, want(topic_id, 0), replica_state=state))[0].error_code == code


async def test_an_append_wakes_followers_and_the_high_watermark_wakes_consumers(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.assign("t", FOLLOWER, in_sync=True)
    consumers = [
        fetch(harness, want(topic_id, 0), max_wait_ms=20_000, isolation_level=isolation_level)
        for isolation_level in (0, 1)
    ]
    replica = fetch(harness, want(topic_id, 0), max_wait_ms=20_000, **follower())
    harness.produce("t", b"a", acks=1)
    assert values(partitions(await replica)[0]) == [b"a"]
    await everything_due()
    assert not any(waiting.done() for waiting in consumers)
    harness.log("t").update_high_watermark(1)
    for waiting in consumers:
        assert values(partitions(await waiting)[0]) == [b"a"]


async def test_a_consumer_counts_only_replicated_bytes(harness: Harness) -> None:
    topic_id = harness.create("t", 2)
    harness.assign("t", FOLLOWER, in_sync=True)
    log = harness.log("t")
    harness.produce("t", b"x" * 1000, acks=1)
    waiting = fetch(harness, want(topic_id, 0, 1), max_wait_ms=20_000, min_bytes=2500)
    harness.produce("t", b"x" * 1000, acks=1)
    harness.produce("t", b"x" * 1000, acks=1)
    log.update_high_watermark(1)
    await everything_due()
    assert not waiting.done(), "one of three batches is replicated"
    harness.produce("t", b"x" * 1000, partition=1)
    await everything_due()
    assert not waiting.done()
    log.update_high_watermark(2)
    answer = partitions(await waiting)
    assert [len(values(answer[number])) for number in (0, 1)] == [2, 1]


async def test_a_session_answers_when_only_the_high_watermark_has_moved(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.assign("t", FOLLOWER, in_sync=True)
    harness.produce("t", b"a", acks=1)
    session = fetch(harness, want(topic_id, 0, offset=1), session_epoch=0, **follower()).session_id
    assert fetch(harness, session_id=session, session_epoch=1, **follower()).responses == []
    harness.log("t").update_high_watermark(1)
    moved = fetch(harness, session_id=session, session_epoch=2, **follower())
    assert partitions(moved)[0].high_watermark == 1


async def test_a_follower_learns_where_its_log_diverges(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.produce("t", b"a")
    harness.assign("t", FOLLOWER)
    harness.change("t", leader=harness.broker.node_id)
    state = follower(min_bytes=0)
    # The epoch has begun without a record: what the follower has beyond offset 1 is of another leader.
    data = partitions(fetch(harness, want(topic_id, 0, offset=3, last_fetched_epoch=0), **state))[0]
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset, values(data)) == (0, 1, [])


async def test_a_reader_before_the_log_start_is_out_of_range_even_if_it_diverges(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.produce("t", b"a", b"b")
    harness.change("t", leader=harness.broker.node_id)
    harness.produce("t", b"c")
    harness.log("t").delete_records(3)
    data = partitions(fetch(harness, want(topic_id, 0, offset=2, last_fetched_epoch=0)))[0]
    assert (data.error_code, data.diverging_epoch.epoch) == (OffsetOutOfRangeError.code, -1)


async def test_a_new_leader_ends_the_wait(harness: Harness) -> None:
    topic_id = harness.create("t")
    waiting = fetch(harness, want(topic_id, 0), max_wait_ms=20_000)
    harness.change("t", leader=FOLLOWER, replicas=[1, FOLLOWER], isr=[FOLLOWER])
    assert partitions(await waiting)[0].error_code == NotLeaderOrFollowerError.code


# ListOffsets while a new leader does not know what is replicated


def list_offset(harness: Harness, timestamp: int, *, version: int = 7, replica_id: int = -1) -> tuple[int, int]:
    wanted = ListOffsetsRequest.ListOffsetsPartition(timestamp=timestamp)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[wanted])
    answer = harness.send(ListOffsetsRequest(replica_id=replica_id, topics=[topic]), version)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset


async def test_the_latest_offset_is_the_high_watermark(harness: Harness) -> None:
    harness.create("t")
    harness.produce("t", b"a")
    harness.assign("t", FOLLOWER, in_sync=True)
    harness.produce("t", b"b", acks=1)
    assert list_offset(harness, -1) == (0, 1)
    assert list_offset(harness, -1, replica_id=-2) == list_offset(harness, -1, replica_id=FOLLOWER) == (0, 2)


async def test_below_its_epoch_a_leader_does_not_know_the_latest_offset(harness: Harness) -> None:
    harness.create("t")
    harness.produce("t", b"a")
    harness.assign("t", FOLLOWER, in_sync=True)
    harness.produce("t", b"b", acks=1)
    harness.change("t", leader=harness.broker.node_id)
    now = harness.clock()
    assert list_offset(harness, -1) == (OffsetNotAvailableError.code, -1)
    assert list_offset(harness, -1, version=4) == (LeaderNotAvailableError.code, -1)
    assert list_offset(harness, now + 1) == (OffsetNotAvailableError.code, -1)
    assert list_offset(harness, now) == list_offset(harness, -2) == (0, 0)
    assert list_offset(harness, -1, replica_id=-2) == (0, 2)
    harness.log("t").update_high_watermark(2)
    assert list_offset(harness, -1) == (0, 2)
