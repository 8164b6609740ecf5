"""The roles of a broker's replicas: when a leader moves the high watermark, and where its epoch begins."""

from __future__ import annotations

from kclient.protocol.messages.records.metadata_log import RemoveTopicRecord
from tests.support.broker_harness import Harness


async def test_a_leader_alone_moves_the_high_watermark_with_each_append(harness: Harness) -> None:
    harness.create("t")
    log = harness.log("t")
    for end in (1, 2, 3):
        harness.produce("t", b"a")
        assert (log.high_watermark, log.log_end_offset) == (end, end)


async def test_with_others_in_sync_the_high_watermark_stays_until_they_are_not(harness: Harness) -> None:
    harness.create("t")
    harness.produce("t", b"a")
    harness.assign("t", 7, in_sync=True)
    log = harness.log("t")
    harness.produce("t", b"b", acks=1)
    assert (log.high_watermark, log.log_end_offset) == (1, 2)
    harness.change("t", isr=[harness.broker.node_id])
    assert (log.high_watermark, log.log_end_offset) == (2, 2)


async def test_a_new_leader_begins_its_epoch_at_the_log_end_before_any_record(harness: Harness) -> None:
    harness.create("t")
    harness.produce("t", b"a", b"b")
    harness.change("t", leader=harness.broker.node_id)
    assert [tuple(entry) for entry in harness.log("t").epochs.entries] == [(0, 0), (1, 2)]


async def test_a_broker_that_no_longer_leads_leaves_the_high_watermark_alone(harness: Harness) -> None:
    harness.create("t")
    log = harness.log("t")
    harness.produce("t", b"a")
    harness.change("t", leader=7, replicas=[1, 7], isr=[7])
    assert log.on_append == []
    harness.change("t", leader=harness.broker.node_id, isr=[harness.broker.node_id])
    harness.produce("t", b"a")
    assert log.high_watermark == 2


async def test_after_a_restart_a_leader_alone_moves_it_to_the_log_end(harness: Harness) -> None:
    harness.create("t")
    harness.produce("t", b"a")
    harness.restart(clean=False)
    assert harness.log("t").high_watermark == 1


async def test_a_deleted_topic_has_no_leader(harness: Harness) -> None:
    topic_id = harness.create("t")
    log = harness.log("t")
    harness.broker.controller.append([RemoveTopicRecord(topic_id=topic_id)])
    assert log.on_append == []
