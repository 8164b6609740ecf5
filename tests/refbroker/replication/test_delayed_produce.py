"""Produce with acks=all while a follower is paused: waiting, completion, errors, and the time limit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
)
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.records.metadata_log import RemoveTopicRecord
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.broker_harness import Harness, batch, turns

OTHER = 7


def send(harness: Harness, *partitions: int, timeout_ms: int = 60_000, records: bytes = b"", version: int = 9) -> Any:
    data = [
        ProduceRequest.PartitionProduceData(index=number, records=records or batch(b"a"))
        for number in partitions or [0]
    ]
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=data)
    return harness.send(ProduceRequest(acks=-1, timeout_ms=timeout_ms, topic_data=[topic]), version)


def results(answer: Any) -> list[tuple[int, int]]:
    return [(one.error_code, one.base_offset) for topic in answer.responses for one in topic.partition_responses]


async def test_without_followers_the_response_needs_no_future(harness: Harness) -> None:
    harness.create("t")
    assert results(send(harness)) == [(0, 0)]
    assert len(harness.broker.delayed_produces) == 0


async def test_acks_all_waits_until_the_high_watermark_has_passed(harness: Harness) -> None:
    harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    waiting = send(harness, records=batch(b"a", b"b", b"c"))
    log = harness.log("t")
    log.update_high_watermark(2)
    await turns()
    assert not waiting.done()
    log.update_high_watermark(3)
    assert results(await waiting) == [(0, 0)]
    assert len(harness.broker.delayed_produces) == 0
    assert log.on_high_watermark == []


async def test_acks_1_is_answered_at_the_append(harness: Harness) -> None:
    harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    assert harness.produce("t", b"a", acks=1).base_offset == 0


async def test_all_partitions_have_to_pass_and_a_refused_one_does_not_wait(harness: Harness) -> None:
    harness.create("t", 3)
    for partition in (0, 1):
        harness.assign("t", OTHER, partition=partition, in_sync=True)
    waiting = send(harness, 0, 1, 2, 9)
    harness.log("t", 0).update_high_watermark(1)
    await turns()
    assert not waiting.done()
    harness.log("t", 1).update_high_watermark(1)
    assert results(await waiting) == [(0, 0), (0, 0), (0, 0), (UnknownTopicOrPartitionError.code, -1)]


async def test_a_repeated_batch_waits_for_the_stored_one(harness: Harness) -> None:
    harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    records = batch(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    first, again = send(harness, records=records), send(harness, records=records)
    await turns()
    assert not again.done()
    harness.log("t").update_high_watermark(1)
    assert results(await first) == results(await again) == [(0, 0)]


async def test_records_that_are_not_replicated_in_time_time_out(harness: Harness) -> None:
    harness.create("t", 2)
    harness.assign("t", OTHER, in_sync=True)
    answer = await send(harness, 0, 1, timeout_ms=1)
    assert results(answer) == [(RequestTimedOutError.code, 0), (0, 0)]
    assert harness.log("t").on_high_watermark == []


async def test_too_few_replicas_in_sync_refuse_before_the_append(harness: Harness) -> None:
    harness.create("t", min_insync_replicas="2")
    harness.assign("t", OTHER)
    assert results(send(harness)) == [(NotEnoughReplicasError.code, -1)]
    assert harness.log("t").log_end_offset == 0


async def test_too_few_replicas_in_sync_after_the_append_are_an_error_of_their_own(harness: Harness) -> None:
    harness.create("t", min_insync_replicas="2")
    harness.assign("t", OTHER, in_sync=True)
    waiting = send(harness)
    harness.change("t", isr=[harness.broker.node_id])
    assert results(await waiting) == [(NotEnoughReplicasAfterAppendError.code, 0)]
    assert harness.log("t").log_end_offset == 1


async def test_a_new_leader_is_reported_to_those_that_wait(harness: Harness) -> None:
    harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    waiting = send(harness, version=10)
    harness.change("t", leader=OTHER)
    answer = await waiting
    assert results(answer) == [(NotLeaderOrFollowerError.code, 0)]
    assert answer.responses[0].partition_responses[0].current_leader.leader_id == OTHER


async def test_the_same_leader_in_a_new_epoch_still_waits(harness: Harness) -> None:
    harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    waiting = send(harness)
    harness.change("t", leader=harness.broker.node_id)
    await turns()
    assert not waiting.done()
    harness.log("t").update_high_watermark(1)
    assert results(await waiting) == [(0, 0)]


async def test_deleting_the_topic_ends_the_wait(harness: Harness) -> None:
    topic_id = harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    waiting = send(harness)
    harness.broker.controller.append([RemoveTopicRecord(topic_id=topic_id)])
    assert results(await waiting) == [(UnknownTopicOrPartitionError.code, 0)]


async def test_a_client_that_disconnects_waits_no_longer(harness: Harness) -> None:
    harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    send(harness)
    [produce] = harness.broker.delayed_produces
    produce.future.cancel()
    await turns()
    assert len(harness.broker.delayed_produces) == 0
    assert harness.log("t").on_high_watermark == []
    # A late move of the high watermark finds nobody.
    harness.log("t").update_high_watermark(1)


async def test_a_stopped_broker_answers_nobody(harness: Harness) -> None:
    harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    send(harness)
    [produce] = harness.broker.delayed_produces
    harness.broker.cancel_waiting()
    await asyncio.sleep(0)
    assert produce.future.cancelled()


@pytest.mark.parametrize("seed", range(5))
async def test_a_power_failure_loses_no_record_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    disk = SimulatedDisk()
    harness = Harness(tmp_path / "data", files=disk)
    harness.create("t")
    harness.assign("t", OTHER, in_sync=True)
    log = harness.log("t")
    acknowledged, waiting = send(harness, records=batch(b"a", b"b")), send(harness, records=batch(b"c"))
    log.update_high_watermark(2)
    assert results(await acknowledged) == [(0, 0)]
    log.flush()
    unflushed = send(harness, records=batch(b"d"))
    await turns()
    assert not any(each.done() for each in (waiting, unflushed))
    harness.close()
    disk.lose_unflushed(seed)
    harness.open()
    # After the failure the follower would lead, and it is not there.
    own = harness.broker.node_id
    harness.change("t", isr=[own], leader=own)
    assert harness.log("t").log_end_offset in (3, 4)
    assert harness.produce("t", b"e").error_code == 0
    harness.close()
