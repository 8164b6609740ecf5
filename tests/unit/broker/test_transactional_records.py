"""Records of transactions in a partition: who may append them, when they are decided, and what a restart remembers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.records import read_batches
from tests.raw_producer import RawProducer
from tests.unit.broker.committing import GroupHarness
from tests.unit.broker.harness import Harness

NONE, INVALID_TOPIC, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER, INVALID_EPOCH = 0, 17, 19, 45, 47
INVALID_TXN_STATE, INVALID_MAPPING, CONCURRENT, FENCED_COORDINATOR = 48, 49, 51, 52
ID_NOT_AUTHORIZED, INVALID_RECORD, ABORTABLE = 53, 87, 120
TRANSACTION = 1


@pytest_asyncio.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    harness = GroupHarness(tmp_path / "data", transaction_state_log_num_partitions="2")
    harness.send(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["t"]), 4)
    harness.create("t", partitions=2)
    yield harness
    harness.close()


def producer(harness: Harness, transactional_id: str = "t", *, transactions: int = 2) -> RawProducer:
    made = RawProducer(harness.send, transactional_id, transactions=transactions)
    assert made.init().error_code == NONE
    return made


def stable(harness: Harness, partition: int = 0) -> tuple[int, int]:
    """Last stable offset and high watermark, as ListOffsets tells them."""
    found = []
    for isolation in (1, 0):
        wanted = ListOffsetsRequest.ListOffsetsTopic(
            name="t", partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=-1)]
        )
        answer = harness.send(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted]), 7)
        found.append(answer.topics[0].partitions[0].offset)
    return found[0], found[1]


def fetch_request(harness: Harness, *, offset: int = 0, committed: bool = True, wait_ms: int = 0) -> FetchRequest:
    one = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic="t", partitions=[one])
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20, isolation_level=int(committed), topics=[topic]
    )


def read(harness: Harness, *, offset: int = 0) -> tuple[list[int], list[tuple[int, int]]]:
    """The offsets of the batches that a committed reader gets, and the aborted transactions it is told of."""
    [topic] = harness.send(fetch_request(harness, offset=offset), 11).responses
    [part] = topic.partitions
    aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions]
    return [batch.base_offset for batch in read_batches(bytes(part.records))], aborted


async def test_a_transaction_of_version_2_needs_no_more_than_its_records(harness: Harness) -> None:
    one = producer(harness)
    assert one.send("t", b"a", b"b").error_code == NONE
    assert stable(harness) == (0, 2)
    answer = one.end(commit=True)
    assert (answer.error_code, one.epoch) == (NONE, 1)
    assert stable(harness) == (3, 3)
    assert one.send("t", b"c").error_code == NONE
    assert stable(harness) == (3, 4)
