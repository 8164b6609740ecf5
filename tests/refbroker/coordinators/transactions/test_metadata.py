"""A transactional id as a value: its records, and what each step makes of it."""

from __future__ import annotations

import dataclasses

import pytest

from kclient.errors import CorruptRecordError, IllegalStateError, ProducerFencedError
from kclient.protocol.messages.records.transaction_state import TransactionLogValue
from refbroker.coordinators.records import CoordinatorRecord, decode_record
from refbroker.coordinators.transactions.metadata import LARGEST_EPOCH, TransactionMetadata, is_exhausted
from refbroker.coordinators.transactions.states import TransactionEvent as E

NEW = TransactionMetadata("id", producer_id=7, timeout_ms=60_000, last_update_timestamp_ms=1)
EMPTY = NEW.with_next_epoch(60_000, None, 2)
ONGOING = EMPTY.with_partitions([("b", 1), ("a", 3), ("a", 0)], 3, 2)


def read(record: CoordinatorRecord) -> TransactionMetadata:
    _, value = decode_record(*record.encode(), "__transaction_state")
    assert isinstance(value, TransactionLogValue)
    return TransactionMetadata.from_record("id", value)


@pytest.mark.parametrize(
    "metadata",
    [
        EMPTY,
        ONGOING,
        ONGOING.prepared(E.COMMIT, 4, 2, 99),
        ONGOING.prepared(E.COMMIT, 4, 2, 99).completed(5),
        ONGOING.prepared(E.ABORT, 4, 0).completed(5),
    ],
    ids=lambda metadata: metadata.state.title,
)
def test_a_record_says_it_all_but_the_last_epoch(metadata: TransactionMetadata) -> None:
    assert read(metadata.to_record(2)) == dataclasses.replace(metadata, last_producer_epoch=-1)


def test_records_of_version_0_know_no_other_producer_id() -> None:
    old = EMPTY.with_partitions([("a", 0)], 3, 0)
    assert (old.to_record(0).version, old.to_record(1).version) == (0, 1)
    assert read(old.to_record(0)) == dataclasses.replace(old, previous_producer_id=-1)
    assert read(old.to_record(0)).with_unrecorded(old) == old


def test_what_was_begun_with_version_2_is_written_with_it_after_a_downgrade() -> None:
    prepared = ONGOING.prepared(E.COMMIT, 4, 2, 99)
    assert read(prepared.to_record(0)).completed(5).producer_id == 99


def test_an_empty_id_has_no_list_of_partitions_and_a_completed_one_an_empty_list() -> None:
    completed = ONGOING.prepared(E.COMMIT, 4, 2).completed(5)
    values = [EMPTY.to_record(2).value, completed.to_record(2).value, ONGOING.to_record(2).value]
    partitions = [value.transaction_partitions for value in values if isinstance(value, TransactionLogValue)]
    assert partitions[:2] == [None, []]
    assert [(one.topic, one.partition_ids) for one in partitions[2] or ()] == [("a", [0, 3]), ("b", [1])]


def test_a_record_with_an_unknown_state_is_corrupt() -> None:
    with pytest.raises(CorruptRecordError, match="id has the unknown state 8"):
        TransactionMetadata.from_record("id", TransactionLogValue(transaction_status=8))


def test_a_tombstone_is_for_those_that_have_nothing_open() -> None:
    assert EMPTY.tombstone().encode()[1] is None
    with pytest.raises(IllegalStateError, match="'ongoing'"):
        ONGOING.tombstone()


# Epochs


def test_the_first_epoch_is_0() -> None:
    assert (EMPTY.producer_id, EMPTY.producer_epoch, EMPTY.last_producer_epoch) == (7, 0, -1)
    asked = NEW.with_next_epoch(60_000, 12, 2)
    assert (asked.producer_epoch, asked.last_producer_epoch) == (0, -1), "there is nobody that it could fence"


@pytest.mark.parametrize(
    ("expected", "epochs"),
    [
        pytest.param(None, (6, -1), id="a new producer"),
        pytest.param(5, (6, 5), id="the producer that has it"),
        pytest.param(4, (5, 4), id="its request again"),
    ],
)
def test_the_next_epoch(expected: int | None, epochs: tuple[int, int]) -> None:
    metadata = dataclasses.replace(EMPTY, producer_epoch=5, last_producer_epoch=4)
    step = metadata.with_next_epoch(1, expected, 2)
    assert (step.producer_epoch, step.last_producer_epoch) == epochs
    assert (step.timeout_ms, step.last_update_timestamp_ms, step.start_timestamp_ms) == (1, 2, -1)


@pytest.mark.parametrize("expected", [3, 6])
def test_another_epoch_is_fenced(expected: int) -> None:
    metadata = dataclasses.replace(EMPTY, producer_epoch=5, last_producer_epoch=4)
    with pytest.raises(ProducerFencedError, match=f"at epoch 5; the producer has {expected}"):
        metadata.with_next_epoch(1, expected, 2)


@pytest.mark.parametrize(("kept", "last"), [(True, 32766), (False, -1)])
def test_an_exhausted_epoch_makes_room_for_another_producer_id(kept: bool, last: int) -> None:
    metadata = dataclasses.replace(EMPTY, producer_epoch=LARGEST_EPOCH - 1)
    assert is_exhausted(metadata.producer_epoch)
    step = metadata.with_new_producer_id(8, 1, 2, keep_last_epoch=kept)
    assert (step.producer_id, step.producer_epoch, step.last_producer_epoch, step.previous_producer_id) == (
        8,
        0,
        last,
        7,
    )


# Transactions


def test_a_transaction_begins_with_its_first_partition() -> None:
    assert (ONGOING.start_timestamp_ms, ONGOING.last_update_timestamp_ms) == (3, 3)
    more = ONGOING.with_partitions([("c", 0)], 9, 2)
    assert (more.start_timestamp_ms, more.last_update_timestamp_ms) == (3, 9)
    assert more.partitions == ONGOING.partitions | {("c", 0)}
    again = more.prepared(E.COMMIT, 10, 2).completed(11).with_partitions([("d", 0)], 12, 2)
    assert (again.start_timestamp_ms, again.partitions) == (12, frozenset({("d", 0)}))


@pytest.mark.parametrize(("version", "epochs"), [(0, (5, 3)), (2, (6, 5))])
def test_each_end_gives_the_next_epoch_in_version_2(version: int, epochs: tuple[int, int]) -> None:
    metadata = dataclasses.replace(ONGOING, producer_epoch=5, last_producer_epoch=3)
    for step in (metadata.prepared(E.COMMIT, 4, version), metadata.prepared(E.ABORT, 4, version)):
        done = step.completed(5)
        assert (step.producer_epoch, step.last_producer_epoch) == epochs
        assert (done.producer_epoch, done.last_producer_epoch, done.partitions) == (*epochs, frozenset())


@pytest.mark.parametrize(
    ("version", "fenced", "aborted"), [(0, (6, -1), (6, -1)), (1, (6, -1), (6, -1)), (2, (5, -1), (6, 5))]
)
def test_a_fenced_producer_has_lost_its_epoch_once(
    version: int, fenced: tuple[int, int], aborted: tuple[int, int]
) -> None:
    step = dataclasses.replace(ONGOING, producer_epoch=5, last_producer_epoch=3).fenced(version)
    assert (step.producer_epoch, step.last_producer_epoch) == fenced
    step = step.prepared(E.ABORT, 4, version)
    assert (step.producer_epoch, step.last_producer_epoch, step.start_timestamp_ms) == (*aborted, 3)


def test_no_epoch_is_larger_than_the_largest() -> None:
    broken = dataclasses.replace(ONGOING, producer_epoch=LARGEST_EPOCH)
    assert broken.fenced(1).producer_epoch == LARGEST_EPOCH
    assert broken.prepared(E.ABORT, 4, 2).producer_epoch == LARGEST_EPOCH


def test_what_is_aborted_without_a_beginning_begins_then() -> None:
    for metadata in (EMPTY, ONGOING.prepared(E.COMMIT, 4, 2).completed(5)):
        assert metadata.prepared(E.ABORT, 20, 2).start_timestamp_ms == 20
