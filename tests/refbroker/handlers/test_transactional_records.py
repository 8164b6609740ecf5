"""Records of transactions in a partition: who may append them, when they are decided, and what a restart remembers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kclient.protocol.messages.list_offsets import ListOffsetsRequest
from kclient.protocol.messages.produce import ProduceRequest
from kclient.records import COMMIT, control_batch, read_batches
from refbroker.handlers.context import CloseConnectionError
from refbroker.metrics import table
from refbroker.metrics.exposition import as_dict
from refbroker.server.address_limits import AddressLimits
from refbroker.server.connection_limits import ConnectionLimits
from refbroker.server.metrics.collect import collect
from tests.refbroker.committing import GroupHarness
from tests.support.broker_harness import Harness, turns
from tests.support.raw_producer import RawProducer, produce_request

NONE, INVALID_TOPIC, NOT_ENOUGH_REPLICAS, OUT_OF_ORDER, INVALID_EPOCH = 0, 17, 19, 45, 47
INVALID_TXN_STATE, INVALID_MAPPING, CONCURRENT, FENCED_COORDINATOR = 48, 49, 51, 52
ID_NOT_AUTHORIZED, INVALID_RECORD, ABORTABLE = 53, 87, 120
UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION = -1, 3
TRANSACTION = 1
UNABLE = "Unable to verify the partition has been added to the transaction. Underlying error:"


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


def fetch_request(*, offset: int = 0, committed: bool = True, wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    one = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic="t", partitions=[one])
    return FetchRequest(
        max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=1 << 20, isolation_level=int(committed), topics=[topic]
    )


def read(harness: Harness, *, offset: int = 0) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the offsets of the batches for a committed reader, and the aborted transactions."""
    [topic] = harness.send(fetch_request(offset=offset), 11).responses
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


async def test_a_transaction_of_version_1_names_its_partitions_first(harness: Harness) -> None:
    one = producer(harness, transactions=1)
    assert one.send("t", version=10).error_code == INVALID_TXN_STATE
    refused = one.send("t")
    assert (refused.error_code, refused.error_message) == (ABORTABLE, None)
    one.add("t", 0)
    assert one.send("t").error_code == NONE
    assert one.end(commit=True).error_code == NONE
    assert one.send("t").error_code == ABORTABLE
    one.add("t", 0)
    assert one.send("t").error_code == NONE
    assert stable(harness) == (2, 3)


async def test_asking_can_be_turned_off_for_version_1(tmp_path: Path) -> None:
    harness = GroupHarness(tmp_path / "data", transaction_partition_verification_enable="false")
    harness.send(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["t"]), 4)
    harness.create("t")
    one = producer(harness, transactions=1)
    assert one.send("t").error_code == NONE
    assert stable(harness) == (0, 1)
    harness.close()


async def test_the_end_of_a_transaction_moves_the_last_stable_offset_to_the_next_open_one(harness: Harness) -> None:
    one, two = producer(harness, "one"), producer(harness, "two")
    one.send("t", b"1")
    two.send("t", b"2")
    one.send("t", b"3")
    assert stable(harness) == (0, 3)
    one.end(commit=True)
    assert stable(harness) == (1, 4)
    two.end(commit=False)
    assert stable(harness) == (5, 5)
    assert read(harness) == ([0, 1, 2, 3, 4], [(two.producer_id, 1)])
    assert read(harness, offset=2) == ([2, 3, 4], [(two.producer_id, 1)])


@pytest.mark.parametrize("crash", [False, True])
async def test_a_restart_knows_what_is_open_and_what_was_aborted(harness: Harness, crash: bool) -> None:
    one, two, plain = producer(harness, "one"), producer(harness, "two"), RawProducer(harness.send, None)
    plain.init()
    for round_ in range(3):
        one.send("t", b"%d" % round_)
        plain.send("t")
        one.end(commit=round_ == 1)
    aborted = [(one.producer_id, 0), (one.producer_id, 6)]
    two.send("t", b"open")
    before = read(harness), stable(harness)
    assert before == (([0, 1, 2, 3, 4, 5, 6, 7, 8], aborted), (9, 10))
    log = harness.broker.logs.get("t", 0)
    assert log is not None
    log.roll()
    two.send("t", b"open in the next segment")
    await harness.restarted(clean=not crash)
    assert (read(harness), stable(harness)) == (before[0], (9, 11))
    assert two.send("t").error_code == NONE
    assert two.end(commit=False).error_code == NONE
    for again in (False, True):
        if again:
            await harness.restarted(clean=not crash)
        assert stable(harness) == (13, 13)
        # Readers also receive a transaction of this segment that was aborted in the next one.
        assert read(harness, offset=9) == ([9], [(two.producer_id, 9)])
        assert read(harness, offset=10) == ([10, 11, 12], [(two.producer_id, 9)])


async def test_what_clients_may_not_write(harness: Harness) -> None:
    one = producer(harness)
    marker = control_batch(
        COMMIT, producer_id=one.producer_id, producer_epoch=one.epoch, coordinator_epoch=0, timestamp=0
    )
    answer = harness.send(produce_request("t", marker, transactional_id="t"), 12).responses[0].partition_responses[0]
    assert answer.error_code == INVALID_RECORD
    for topic in ("__transaction_state", "__consumer_offsets"):
        data = one.batch(topic, b"v", is_transactional=False)
        for client, expected in (("anybody", INVALID_TOPIC), ("__admin_client", NONE)):
            answer = harness.send(produce_request(topic, data), 12, client_id=client)
            assert answer.responses[0].partition_responses[0].error_code == expected


@pytest.mark.parametrize("whose", [{"producer_id": -1}, {"producer_epoch": -1}])
async def test_nobody_has_no_markers(harness: Harness, whose: dict[str, Any]) -> None:
    one = producer(harness)
    assert one.mark(("t", 0), ("none", 0), **whose) == [UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION]
    assert stable(harness) == (0, 0)


async def test_transactional_records_need_one_transactional_id(harness: Harness) -> None:
    one, two = producer(harness, "one"), producer(harness, "two")
    for version in (3, 12):
        data = one.batch("t", b"v")
        [answer] = harness.send(produce_request("t", data), version).responses[0].partition_responses
        assert answer.error_code == ID_NOT_AUTHORIZED
    request = produce_request("t", one.batch("t", b"v"), transactional_id="one")
    request.topic_data[0].partition_data.append(
        ProduceRequest.PartitionProduceData(index=1, records=two.batch("t", b"v"))
    )
    answers = harness.send(request, 12).responses[0].partition_responses
    assert [(one.error_code, one.error_message) for one in answers] == [
        (INVALID_MAPPING, "Transactional records contained more than one producer ID")
    ] * 2
    with pytest.raises(CloseConnectionError):
        harness.send(produce_request("t", data, acks=0), 12)


async def test_a_partition_that_is_refused_does_not_hold_up_the_others(harness: Harness) -> None:
    one = producer(harness, transactions=1)
    one.add("t", 1)
    request = produce_request("t", one.batch("t", b"v"), transactional_id="t")
    request.topic_data[0].partition_data.append(
        ProduceRequest.PartitionProduceData(index=1, records=one.batch("t", b"v"))
    )
    answers = harness.send(request, 11).responses[0].partition_responses
    assert [one.error_code for one in answers] == [ABORTABLE, NONE]
    assert (stable(harness), stable(harness, 1)) == ((0, 0), (0, 1))


async def test_without_its_coordinator_a_producer_is_asked_to_try_again(harness: Harness) -> None:
    one = producer(harness)
    assert one.send("t", b"a").error_code == NONE
    harness.restart(clean=False)
    # The log of the transactions is being read.
    assert one.send("t", b"b").error_code == NONE, "of an open transaction nobody is asked"
    answer = one.send("t", partition=1)
    assert (answer.error_code, answer.error_message) == (
        NOT_ENOUGH_REPLICAS,
        f"{UNABLE} COORDINATOR_LOAD_IN_PROGRESS",
    )
    # Meanwhile nothing gets in before it.
    assert one.send("t", partition=1, sequence=1).error_code == NOT_ENOUGH_REPLICAS
    await harness.loaded()
    assert one.send("t", partition=1, sequence=1).error_code == OUT_OF_ORDER
    assert one.send("t", partition=1).error_code == NONE


# While the transaction before is being completed


def limit(harness: Harness, max_message_bytes: int) -> None:
    """How large the batches of t may be; markers have 78 bytes."""
    config = IncrementalAlterConfigsRequest.AlterableConfig(
        name="max.message.bytes", config_operation=0, value=str(max_message_bytes)
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    assert harness.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == NONE


def sent(harness: Harness, one: RawProducer, version: int = 12) -> Any:
    """The answer to records in another topic, or a future of it."""
    return harness.send(produce_request("u", one.batch("u", b"v"), transactional_id="t"), version)


async def test_records_wait_a_little_for_the_end_of_the_transaction_before(harness: Harness) -> None:
    harness.create("u")
    one = producer(harness)
    one.send("t")
    limit(harness, 50)
    assert one.end(commit=True).error_code == NONE
    assert stable(harness) == (0, 1), "it has no marker yet"
    answer = await sent(harness, one)
    assert answer.responses[0].partition_responses[0].error_code == CONCURRENT, "it takes too long"
    waiting = sent(harness, one)
    assert not waiting.done()
    limit(harness, 1000)
    harness.clock.step(100)
    answer = await waiting
    assert answer.responses[0].partition_responses[0].error_code == NONE
    assert stable(harness) == (2, 2)


async def test_older_clients_are_asked_to_try_again_at_once(harness: Harness) -> None:
    harness.create("u")
    one = producer(harness, transactions=1)
    one.add("t")
    one.send("t")
    limit(harness, 50)
    one.end(commit=True)
    [answer] = sent(harness, one, 11).responses[0].partition_responses
    assert answer.error_code == NOT_ENOUGH_REPLICAS
    assert answer.error_message.endswith("Underlying error: CONCURRENT_TRANSACTIONS")


# Readers that wait


async def test_a_committed_reader_waits_for_the_end_of_a_transaction_and_gets_all_of_it(harness: Harness) -> None:
    one = producer(harness)
    one.send("t", b"a")
    waiting = harness.send(fetch_request(wait_ms=60_000, min_bytes=100), 11)
    one.send("t", b"b" * 1000)
    await turns()
    assert not waiting.done(), "what is not decided is no reason to answer"
    one.end(commit=True)
    [part] = (await waiting).responses[0].partitions
    assert [batch.base_offset for batch in read_batches(bytes(part.records))] == [0, 1, 2]
    assert (part.last_stable_offset, part.high_watermark) == (3, 3)


async def test_a_committed_reader_waits_for_as_much_as_it_wants(harness: Harness) -> None:
    one = producer(harness)
    waiting = harness.send(fetch_request(wait_ms=60_000, min_bytes=5000), 11)
    for size in (100, 6000):
        one.send("t", b"v" * size)
        one.end(commit=True)
        await turns()
        assert waiting.done() == (size == 6000)
    [part] = (await waiting).responses[0].partitions
    assert len(bytes(part.records)) > 6000


async def test_any_other_reader_does_not_wait_for_the_end(harness: Harness) -> None:
    one = producer(harness)
    waiting = harness.send(fetch_request(wait_ms=60_000, committed=False), 11)
    one.send("t")
    [part] = (await waiting).responses[0].partitions
    assert (part.last_stable_offset, part.high_watermark, part.aborted_transactions) == (0, 1, None)


# Compaction


async def test_a_producer_whose_batches_were_all_compacted_away_continues_after_a_restart(harness: Harness) -> None:
    harness.create("c", cleanup_policy="compact", min_cleanable_dirty_ratio="0.0")
    one, other = RawProducer(harness.send, None), RawProducer(harness.send, None)
    one.init()
    other.init()
    for _ in range(3):
        assert one.send("c", b"one", timestamp=harness.clock()).error_code == NONE
    for _ in range(20):
        assert other.send("c", b"other", timestamp=harness.clock()).error_code == NONE
    log = harness.broker.logs.get("c", 0)
    assert log is not None
    log.roll()
    await harness.broker.cleaner.clean_due()
    headers = [header for segment in log.segments for header in segment.headers()]
    assert [header.record_count for header in headers if header.producer_id == one.producer_id] == [0]
    harness.restart(clean=False)
    for snapshot in log.directory.glob("*.snapshot"):
        snapshot.unlink()
    harness.restart(clean=False)
    gap = one.send("c", sequence=4, timestamp=harness.clock())
    assert gap.error_code == OUT_OF_ORDER
    assert one.send("c", b"next", timestamp=harness.clock()).error_code == NONE


# Metrics


async def test_what_is_counted_of_open_transactions(harness: Harness) -> None:
    broker = harness.broker
    limits = ConnectionLimits(broker.config, AddressLimits(broker.config, broker.image, broker.lookups), broker.clock)

    async def values() -> tuple[Any, ...]:
        found = as_dict(await collect(harness.broker, 0, limits))
        of_partition = (table.LAST_STABLE, table.LAST_STABLE_LAG, table.LAST_STABLE_AGE)
        return (
            *(found[metric.name]["t"]["0"] for metric in of_partition),
            found[table.LATE_TRANSACTIONS.name],
            found[table.PRODUCERS.name],
        )

    assert await values() == (0, 0, 0, 0, 0)
    one = producer(harness)
    one.send("t", b"a", b"b", timestamp=harness.clock())
    harness.clock.step(700)
    assert await values() == (0, 2, 700, 0, 1)
    # A quarter of an hour is the longest a transaction may take, and five minutes are added.
    harness.clock.step(20 * 60_000)
    assert await values() == (0, 2, 700 + 20 * 60_000, 1, 1)
    one.end(commit=True)
    assert await values() == (3, 0, 0, 0, 1)
