"""Coordinators while a follower is paused: what waits for the high watermark, and how a wait ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient.errors import (
    CoordinatorNotAvailableError,
    GroupIdNotFoundError,
    InvalidTxnStateError,
    NotCoordinatorError,
    RequestTimedOutError,
)
from kclient.protocol import Message
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest
from kclient.protocol.messages.end_txn import EndTxnRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.init_producer_id import InitProducerIdRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.list_groups import ListGroupsRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest
from kclient.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kclient.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.broker_harness import Harness, batch, turns
from tests.support.transaction_harness import DATA, ID, TransactionHarness

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
OTHER = 7
COMMIT_TIMEOUT_MS = 5000


@pytest_asyncio.fixture
async def broker(tmp_path: Path) -> AsyncIterator[TransactionHarness]:
    broker = TransactionHarness(tmp_path / "data", version=2)
    yield broker
    broker.close()


def pause(broker: Harness, topic: str, partition: int = 0) -> None:
    """Give a partition a follower that is in sync and does not fetch."""
    broker.assign(topic, OTHER, partition=partition, in_sync=True)


def follow(broker: Harness, topic: str, partition: int = 0) -> None:
    """Let the follower of a partition fetch everything."""
    log = broker.broker.logs.get(topic, partition)
    assert log is not None
    log.move_high_watermark_to_end()


def commit_request(offset: int, group: str = "g") -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=DATA, partitions=[partition])
    return OffsetCommitRequest(group_id=group, topics=[topic])


def commit(broker: Harness, offset: int, group: str = "g") -> Any:
    return broker.send(commit_request(offset, group), 9)


def committing(answer: Any) -> int:
    [topic] = answer.topics
    code: int = topic.partitions[0].error_code
    return code


def fetch_request(group: str = "g") -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)])


def fetched(answer: Any) -> list[int]:
    [group] = answer.groups
    assert group.error_code == 0
    return [one.committed_offset for topic in group.topics for one in topic.partitions]


# Groups


async def test_with_one_replica_nothing_waits(broker: TransactionHarness) -> None:
    assert committing(commit(broker, 5)) == 0
    assert fetched(broker.send(fetch_request(), 9)) == [5]


async def test_a_commit_is_answered_when_it_is_replicated(broker: TransactionHarness) -> None:
    pause(broker, OFFSETS)
    first, second = commit(broker, 5), commit(broker, 6)
    log = broker.log(OFFSETS)
    await turns()
    assert not first.done()
    log.update_high_watermark(1)
    assert committing(await first) == 0
    await turns()
    assert not second.done()
    log.update_high_watermark(2)
    assert committing(await second) == 0
    assert log.on_high_watermark == []


READS: dict[str, Message] = {
    "OffsetFetch": fetch_request(),
    "DescribeGroups": DescribeGroupsRequest(groups=["g"]),
    "ListGroups": ListGroupsRequest(),
}


@pytest.mark.parametrize("kind", READS)
async def test_a_read_waits_for_the_writes_that_it_may_show(broker: TransactionHarness, kind: str) -> None:
    request = READS[kind]
    version = min(type(request).max_version, 9) if kind == "OffsetFetch" else 5
    assert not isinstance(broker.send(request, version), asyncio.Future)
    pause(broker, OFFSETS)
    writing, reading = commit(broker, 5), broker.send(request, version)
    await turns()
    assert not reading.done()
    follow(broker, OFFSETS)
    await writing
    assert type(await reading) is type(request).response_type


async def test_an_error_of_a_request_does_not_wait(broker: TransactionHarness) -> None:
    pause(broker, OFFSETS)
    waiting = commit(broker, 5)
    answer = broker.send(DeleteGroupsRequest(groups_names=["none"]), 2)
    assert [one.error_code for one in answer.results] == [GroupIdNotFoundError.code]
    follow(broker, OFFSETS)
    await waiting


async def test_a_commit_that_is_not_replicated_in_time_fails_and_may_count_later(broker: TransactionHarness) -> None:
    pause(broker, OFFSETS)
    first = commit(broker, 5)
    await broker.pass_time(COMMIT_TIMEOUT_MS - 1)
    second = commit(broker, 6)
    assert not first.done()
    await broker.pass_time(1)
    assert committing(await first) == CoordinatorNotAvailableError.code
    assert not second.done()
    await broker.pass_time(COMMIT_TIMEOUT_MS - 1)
    assert committing(await second) == CoordinatorNotAvailableError.code
    assert broker.log(OFFSETS).on_high_watermark == []
    follow(broker, OFFSETS)
    assert fetched(broker.send(fetch_request(), 9)) == [6]


async def test_the_time_limit_is_the_setting(tmp_path: Path) -> None:
    broker = TransactionHarness(tmp_path / "data", offsets_commit_timeout_ms="10")
    pause(broker, OFFSETS)
    waiting = commit(broker, 5)
    await broker.pass_time(10)
    assert committing(await waiting) == CoordinatorNotAvailableError.code
    broker.close()


async def test_a_new_leader_is_reported_to_those_that_wait(broker: TransactionHarness) -> None:
    pause(broker, OFFSETS)
    writing, reading = commit(broker, 5), broker.send(fetch_request(), 9)
    broker.change(OFFSETS, leader=OTHER)
    assert committing(await writing) == NotCoordinatorError.code
    [group] = (await reading).groups
    assert group.error_code == NotCoordinatorError.code
    assert broker.log(OFFSETS).on_high_watermark == []


async def test_a_new_epoch_loads_what_is_not_replicated_and_holds_it(broker: TransactionHarness) -> None:
    pause(broker, OFFSETS)
    waiting = commit(broker, 5)
    broker.change(OFFSETS, leader=broker.broker.node_id)
    assert committing(await waiting) == NotCoordinatorError.code
    await broker.loaded()
    reading = broker.send(fetch_request(), 9)
    await turns()
    assert not reading.done()
    follow(broker, OFFSETS)
    assert fetched(await reading) == [5]


async def test_a_client_that_disconnects_does_not_stop_the_others(broker: TransactionHarness) -> None:
    pause(broker, OFFSETS)
    groups = broker.broker.groups
    writing = commit(broker, 4)
    gone = groups.answer("g", lambda: "read", lambda error: "failed")
    assert isinstance(gone, asyncio.Future)
    gone.cancel()
    second = commit(broker, 6)
    await turns()
    follow(broker, OFFSETS)
    assert (committing(await writing), committing(await second)) == (0, 0)


async def test_an_assignment_reaches_the_members_when_it_is_replicated(tmp_path: Path) -> None:
    broker = TransactionHarness(tmp_path / "data", group_initial_rebalance_delay_ms="0")
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    joining = broker.send(join, 3)
    await broker.pass_time(1)
    joined = await joining
    assert joined.error_code == 0
    pause(broker, OFFSETS)
    who = {"group_id": "g", "generation_id": joined.generation_id, "member_id": joined.member_id}
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
    syncing = broker.send(SyncGroupRequest(assignments=[assignment], **who), 3)
    beating = broker.send(HeartbeatRequest(**who), 3)
    again = broker.send(SyncGroupRequest(**who), 3)
    await turns()
    assert not any(waiting.done() for waiting in (syncing, beating, again))
    follow(broker, OFFSETS)
    assert [(await answer).assignment for answer in (syncing, again)] == [b"all", b"all"]
    assert (await beating).error_code == 0
    broker.close()


@pytest.mark.parametrize("seed", range(5))
async def test_a_power_failure_loses_only_commits_that_were_not_answered(tmp_path: Path, seed: int) -> None:
    disk = SimulatedDisk()
    broker = TransactionHarness(tmp_path / "data", files=disk)
    assert committing(commit(broker, 5)) == 0
    broker.log(OFFSETS).flush()
    pause(broker, OFFSETS)
    waiting = commit(broker, 6)
    await turns()
    assert not waiting.done()
    waiting.cancel()
    broker.close()
    disk.lose_unflushed(seed)
    broker.open()
    # After the failure the follower would lead, and it is not there.
    own = broker.broker.node_id
    broker.change(OFFSETS, isr=[own], leader=own)
    await broker.loaded()
    assert fetched(await _answered(broker.send(fetch_request(), 9))) in ([5], [6])
    broker.close()


async def _answered(answer: Any) -> Any:
    return await answer if isinstance(answer, asyncio.Future) else answer


# Transactions


def init_request() -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1)


def produce(broker: Harness, who: tuple[int, int], value: bytes) -> Any:
    records = batch(value, producer_id=who[0], producer_epoch=who[1], base_sequence=0, is_transactional=True)
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name=DATA, partition_data=[data])
    return broker.send(ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=[topic]), 12)


def end(broker: Harness, who: tuple[int, int], *, commit: bool) -> Any:
    request = EndTxnRequest(transactional_id=ID, producer_id=who[0], producer_epoch=who[1], committed=commit)
    return broker.send(request, 5)


def produced(answer: Any) -> int:
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


async def test_an_identity_is_given_when_it_is_replicated(broker: TransactionHarness) -> None:
    pause(broker, TRANSACTIONS)
    waiting = broker.send(init_request(), 5)
    await turns()
    assert not waiting.done()
    follow(broker, TRANSACTIONS)
    assert (await waiting).error_code == 0


async def test_an_added_partition_is_confirmed_when_it_is_replicated(broker: TransactionHarness) -> None:
    who = broker.identity()
    pause(broker, TRANSACTIONS)
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=DATA, partitions=[0])

    def ask(*, verify_only: bool) -> Any:
        one = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=ID, producer_id=who[0], producer_epoch=who[1], verify_only=verify_only, topics=[topic]
        )
        return broker.send(AddPartitionsToTxnRequest(transactions=[one]), 5)

    adding, verifying = ask(verify_only=False), ask(verify_only=True)
    await turns()
    assert not any(waiting.done() for waiting in (adding, verifying))
    follow(broker, TRANSACTIONS)
    for answer in (await adding, await verifying):
        [result] = answer.results_by_transaction[0].topic_results
        assert result.results_by_partition[0].partition_error_code == 0


async def test_records_are_appended_when_the_coordinator_has_replicated_their_partition(
    broker: TransactionHarness,
) -> None:
    who = broker.identity()
    pause(broker, TRANSACTIONS)
    writing = produce(broker, who, b"a")
    await turns()
    assert not writing.done()
    assert broker.log(DATA).log_end_offset == 0
    follow(broker, TRANSACTIONS)
    assert produced(await writing) == 0
    assert broker.log(DATA).log_end_offset == 1


async def test_a_verification_that_comes_after_the_end_of_its_transaction_appends_nothing(
    broker: TransactionHarness,
) -> None:
    who = broker.identity()
    pause(broker, TRANSACTIONS)
    writing = produce(broker, who, b"late")
    ending = end(broker, who, commit=False)
    await turns()
    assert broker.markers() == []
    # In one turn the addition and the outcome are replicated, and the marker is written before the records.
    follow(broker, TRANSACTIONS)
    assert broker.markers() == [(False, who[1] + 1)]
    assert produced(await writing) in (InvalidTxnStateError.code, 47)
    follow(broker, TRANSACTIONS)
    assert (await ending).error_code == 0
    assert broker.log(DATA).log_end_offset == 1, "only the marker"
    assert broker.log(DATA).last_stable_offset == 1


async def test_markers_are_written_when_the_outcome_is_replicated(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    assert broker.write(who, b"a") == 0
    pause(broker, TRANSACTIONS)
    ending = end(broker, who, commit=True)
    await turns()
    assert not ending.done()
    assert (broker.markers(0), broker.state().state.title) == ([], "PrepareCommit")
    follow(broker, TRANSACTIONS)
    assert (await ending).error_code == 0
    assert broker.markers(0) == broker.markers(1) == [(True, who[1] + 1)]
    assert broker.state().state.title == "CompleteCommit"


async def test_a_transaction_is_complete_when_its_markers_are_replicated(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    pause(broker, DATA)
    answer = end(broker, who, commit=True)
    assert answer.error_code == 0
    await turns()
    assert broker.state().state.title == "PrepareCommit"
    follow(broker, DATA)
    await turns()
    assert broker.state().state.title == "CompleteCommit"


async def test_markers_that_are_not_replicated_in_time_are_written_again(tmp_path: Path) -> None:
    broker = TransactionHarness(tmp_path / "data", request_timeout_ms="1")
    who = broker.identity()
    broker.begin(who, [(DATA, 0)])
    pause(broker, DATA)
    assert end(broker, who, commit=True).error_code == 0
    [delayed] = broker.broker.delayed_produces
    await asyncio.wait([delayed.future])
    await turns()
    assert broker.state().state.title == "PrepareCommit"
    broker.change(DATA, isr=[broker.broker.node_id])
    await broker.pass_time(100)
    assert broker.state().state.title == "CompleteCommit"
    assert broker.markers(0) == [(True, who[1] + 1)] * 2
    broker.close()


async def test_an_outcome_that_is_loaded_waits_for_replication_before_its_markers(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    pause(broker, TRANSACTIONS)
    ending = end(broker, who, commit=True)
    broker.change(TRANSACTIONS, leader=broker.broker.node_id)
    assert (await ending).error_code == NotCoordinatorError.code
    await broker.loaded()
    assert (broker.markers(0), broker.state().state.title) == ([], "PrepareCommit")
    follow(broker, TRANSACTIONS)
    await turns()
    assert broker.markers(0) == [(True, who[1] + 1)]


async def test_markers_of_an_unloaded_coordinator_complete_nothing(broker: TransactionHarness) -> None:
    who = broker.identity()
    broker.begin(who)
    pause(broker, DATA)
    assert end(broker, who, commit=True).error_code == 0
    broker.change(TRANSACTIONS, leader=OTHER, replicas=[1, OTHER], isr=[OTHER])
    end_offset = broker.log(TRANSACTIONS).log_end_offset
    follow(broker, DATA)
    await broker.pass_time(1000)
    assert broker.log(TRANSACTIONS).log_end_offset == end_offset


@pytest.mark.parametrize("replicated", [True, False], ids=["replicated", "not in time"])
async def test_write_txn_markers_is_answered_when_they_are_replicated(tmp_path: Path, replicated: bool) -> None:
    broker = TransactionHarness(tmp_path / "data", request_timeout_ms="60000" if replicated else "1")
    pause(broker, DATA)
    one = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=4,
        producer_epoch=1,
        transaction_result=True,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=DATA, partition_indexes=[0, 1])],
    )
    waiting = broker.send(WriteTxnMarkersRequest(markers=[one]), 1)
    if replicated:
        await turns()
        assert not waiting.done()
        follow(broker, DATA)
    [topic] = (await waiting).markers[0].topics
    codes = {partition.partition_index: partition.error_code for partition in topic.partitions}
    assert codes == {0: 0 if replicated else RequestTimedOutError.code, 1: 0}
    broker.close()


async def test_offsets_of_a_transaction_wait_for_both_coordinators(broker: TransactionHarness) -> None:
    who = broker.identity()
    pause(broker, TRANSACTIONS)
    pause(broker, OFFSETS)
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="g",
        producer_id=who[0],
        producer_epoch=who[1],
        topics=[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=DATA, partitions=[partition])],
    )
    waiting = broker.send(request, 5)
    await turns()
    assert not waiting.done()
    assert broker.log(OFFSETS).log_end_offset == 0
    follow(broker, TRANSACTIONS)
    await turns()
    assert not waiting.done()
    assert broker.log(OFFSETS).log_end_offset == 1
    follow(broker, OFFSETS)
    assert committing(await waiting) == 0
