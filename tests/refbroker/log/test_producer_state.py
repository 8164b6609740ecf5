"""Idempotent producers: what is stored once, what is refused, and what a restart remembers."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import InvalidProducerEpochError, InvalidRecordError, InvalidTxnStateError, OutOfOrderSequenceError
from kclient.records import ABORT, COMMIT, control_batch
from refbroker.log import Origin, PartitionLog
from refbroker.log.producer_snapshot import CorruptSnapshotError, decode_snapshot, encode_snapshot
from refbroker.log.producer_state import BatchMetadata, ProducerEntry
from tests.support.stores import START_MS, Store, append, make_batch

INT32_MAX = 2**31 - 1


def send(log: PartitionLog, sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 9, **more: Any) -> Any:
    return append(log, count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **more)


def test_each_of_the_last_five_batches_is_stored_once_and_answered_with_its_offsets(log: PartitionLog) -> None:
    results = [send(log, sequence, 2) for sequence in range(0, 12, 2)]
    assert log.log_end_offset == 12
    for number in range(1, 6):
        again = send(log, number * 2, 2)
        assert again.duplicate
        assert (again.base_offset, again.last_offset) == (results[number].base_offset, results[number].last_offset)
    assert log.log_end_offset == 12
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 0, 2)


def test_a_batch_with_the_first_sequence_of_another_but_another_size_is_out_of_order(log: PartitionLog) -> None:
    send(log, 0, 2)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 0, 3)


def test_a_gap_in_the_sequence_is_refused_and_says_what_was_expected(log: PartitionLog) -> None:
    send(log, 0, 3)
    with pytest.raises(
        OutOfOrderSequenceError, match=r"producer 9: 4 \(incoming sequence number\), 3 \(expected"
    ) as caught:
        send(log, 4)
    assert (caught.value.topic, caught.value.partition) == ("orders", 0)
    assert send(log, 3).base_offset == 3


def test_an_older_epoch_is_fenced(log: PartitionLog) -> None:
    send(log, 0, epoch=2)
    with pytest.raises(InvalidProducerEpochError, match="smaller than the last seen epoch 2"):
        send(log, 1, epoch=1)


def test_a_new_epoch_starts_at_sequence_zero(log: PartitionLog) -> None:
    send(log, 0, 5, epoch=0)
    with pytest.raises(OutOfOrderSequenceError, match="new epoch 1"):
        send(log, 5, epoch=1)
    assert send(log, 0, epoch=1).base_offset == 5
    with pytest.raises(InvalidProducerEpochError):
        send(log, 0, 5, epoch=0)


def test_a_producer_that_is_not_known_continues_from_any_sequence(log: PartitionLog) -> None:
    assert send(log, 4711).base_offset == 0
    assert send(log, 4712).base_offset == 1


def test_the_sequence_wraps_to_zero_after_two_to_the_31_minus_one(log: PartitionLog) -> None:
    send(log, INT32_MAX - 2, 2)
    over_the_edge = send(log, INT32_MAX, 3)
    assert send(log, INT32_MAX, 3).duplicate
    assert send(log, 2).base_offset == over_the_edge.last_offset + 1
    assert log.producers()[0].last_sequence == 2


def test_producers_do_not_disturb_each_other(log: PartitionLog) -> None:
    assert [send(log, 0, producer=p).base_offset for p in (1, 2, 3)] == [0, 1, 2]
    assert len(log.producers()) == 3


def test_a_producer_without_sequence_is_refused(log: PartitionLog) -> None:
    with pytest.raises(InvalidRecordError, match="Invalid sequence number -1"):
        send(log, -1)


def test_a_transactional_batch_outside_a_transaction_is_refused(log: PartitionLog) -> None:
    with pytest.raises(InvalidTxnStateError, match="not part of an ongoing transaction"):
        send(log, 0, is_transactional=True)
    assert log.log_end_offset == 0


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_transaction_that_has_ended_is_reported_as_none(log: PartitionLog, kind: int) -> None:
    data = make_batch(producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append(data, leader_epoch=0, now_ms=START_MS, verified=True)
    assert log.producers()[0].current_txn_first_offset == 0
    marker = control_batch(kind, producer_id=9, producer_epoch=0, coordinator_epoch=0, timestamp=START_MS)
    log.append(marker, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=START_MS)
    assert log.producers()[0].current_txn_first_offset == -1


def test_an_idle_producer_is_forgotten(store: Store) -> None:
    log = store.log()
    send(log, 0)
    day = 86_400_000
    assert log.remove_expired_producers(START_MS + day - 1) == 0
    assert log.remove_expired_producers(START_MS + day) == 1
    assert send(log, 55).base_offset == 1


@pytest.mark.parametrize("clean", [True, False])
def test_producers_are_remembered_over_a_restart(store: Store, clean: bool) -> None:
    log = store.log()
    for sequence in range(0, 200, 2):
        send(log, sequence, 2)
    assert len(log.segments) > 1
    log = store.reopened(clean=clean)
    again = send(log, 198, 2)
    assert again.duplicate
    assert again.base_offset == 198
    assert send(log, 200).base_offset == 200


def test_a_damaged_snapshot_is_replaced_by_the_one_before_it_and_the_log(store: Store) -> None:
    log = store.log()
    for sequence in range(200):
        send(log, sequence)
    store.close()
    last = max(store.path.glob("*.snapshot"))
    last.write_bytes(last.read_bytes()[:-1] + b"\0")
    assert send(store.log(), 199).duplicate


def test_a_start_removes_snapshots_at_offsets_where_no_segment_begins_or_ends(store: Store) -> None:
    log = store.log()
    for _ in range(3):
        append(log, 3, producer_id=7, producer_epoch=0, base_sequence=log.log_end_offset)
        log.roll()
    append(log, 3, producer_id=7, producer_epoch=0, base_sequence=log.log_end_offset)
    log.delete_records(3)
    store.close()
    data = (store.path / f"{9:020d}.snapshot").read_bytes()
    for offset in (1, 3, 4, 6, 9, 12, 13):
        (store.path / f"{offset:020d}.snapshot").write_bytes(data)
    store.log()
    assert sorted(int(path.stem) for path in store.path.glob("*.snapshot")) == [6, 9, 12]


def test_a_damaged_only_snapshot_is_replaced_by_the_log(store: Store) -> None:
    log = store.log()
    for sequence in range(3):
        send(log, sequence)
    store.close()
    [only] = store.path.glob("*.snapshot")
    only.write_bytes(only.read_bytes()[:-1] + b"\0")
    assert send(store.log(), 2).duplicate


def test_a_snapshot_round_trips_and_its_checksum_is_checked() -> None:
    entry = ProducerEntry(7, 1, 4, START_MS, 33)
    entry.batches.append(BatchMetadata(10, 40, 4, START_MS))
    empty = ProducerEntry(8, 0)
    data = encode_snapshot([entry, empty])
    assert decode_snapshot(data) == [entry, empty]
    for damaged in (b"", data[:-1], data[:-1] + b"\1", b"\0\2" + data[2:]):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(damaged)


def test_snapshots_match_the_declared_message() -> None:
    from kclient.protocol import lookup

    entry = ProducerEntry(7, 1, 4, START_MS, 33)
    entry.batches.append(BatchMetadata(10, 40, 4, START_MS))
    data = encode_snapshot([entry])
    message: Any = lookup("ProducerSnapshot").decode(data[2:], 1)
    decoded = message.producer_entries[0]
    assert (decoded.producer_id, decoded.last_sequence, decoded.last_offset, decoded.offset_delta) == (7, 10, 40, 4)
    assert (decoded.coordinator_epoch, decoded.current_txn_first_offset) == (4, 33)
    assert data == b"\0\1" + bytes(message.encode(1))
