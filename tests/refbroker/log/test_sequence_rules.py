"""Which batch of a producer a partition takes, by table: what it knows of the producer, and what comes.

Each rule again after a crash of the broker, which must not have forgotten what it depends on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from kclient.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kclient.records import ABORT, COMMIT, control_batch
from refbroker.log import AppendResult, Isolation, Origin, PartitionLog
from tests.support.stores import START_MS, Store, make_batch

LAST = 2**31 - 1
PRODUCER = 9

STORED = "stored"
OUT_OF_ORDER, OLD_EPOCH, NO_TRANSACTION = OutOfOrderSequenceError, InvalidProducerEpochError, InvalidTxnStateError


@dataclass(frozen=True)
class Batch:
    """A batch.

    Attributes:
        verified: in which version of transactions the coordinator was asked, 0 for not at all.
        refused: the coordinator has said no; nothing is appended.
    """

    sequence: int
    epoch: int = 0
    count: int = 1
    verified: int = 0
    transactional: bool = False
    refused: bool = False


class Marker(NamedTuple):
    epoch: int = 0
    coordinator_epoch: int = 0
    version: int = 0
    commit: bool = True


def apply(log: PartitionLog, step: Batch | Marker) -> AppendResult | None:
    if isinstance(step, Marker):
        marker = control_batch(
            COMMIT if step.commit else ABORT,
            producer_id=PRODUCER,
            producer_epoch=step.epoch,
            coordinator_epoch=step.coordinator_epoch,
            timestamp=START_MS,
        )
        return log.append(
            marker, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=START_MS, transaction_version=step.version
        )
    if step.verified:
        log.begin_verification(PRODUCER, step.epoch, step.sequence, supports_epoch_bump=step.verified == 2)
        if step.refused:
            return None
    data = make_batch(
        step.count,
        producer_id=PRODUCER,
        producer_epoch=step.epoch,
        base_sequence=step.sequence,
        is_transactional=step.transactional or bool(step.verified),
    )
    return log.append(data, leader_epoch=0, now_ms=START_MS, verified=bool(step.verified))


SEVEN: list[Batch | Marker] = [Batch(number) for number in range(7)]
# Offset 0: its only record.
OPEN: list[Batch | Marker] = [Batch(0, verified=1)]
OPEN_2: list[Batch | Marker] = [Batch(0, verified=2)]

# What is known, what comes, and what happens to it: STORED, the offset of the batch that it repeats, or the error.
RULES: list[tuple[str, list[Batch | Marker], Batch | Marker, object]] = [
    ("a producer that is not known begins at 0", [], Batch(0), STORED),
    ("or wherever it is", [], Batch(4711), STORED),
    ("not so in a transaction of version 2", [], Batch(4711, verified=2), OUT_OF_ORDER),
    ("which begins at 0", [], Batch(0, verified=2), STORED),
    ("but in one of version 1", [], Batch(4711, verified=1), STORED),
    ("the next one", SEVEN, Batch(7), STORED),
    ("a gap", SEVEN, Batch(8), OUT_OF_ORDER),
    ("the last one again", SEVEN, Batch(6), 6),
    ("the fifth of the last again", SEVEN, Batch(2), 2),
    ("an older one again", SEVEN, Batch(1), OUT_OF_ORDER),
    ("one that is known with another size", SEVEN, Batch(5, count=2), OUT_OF_ORDER),
    ("of several records the first offset is reported", [Batch(0), Batch(1, count=3)], Batch(1, count=3), 1),
    ("0 follows the last sequence there is", [Batch(LAST)], Batch(0), STORED),
    ("not 1", [Batch(LAST)], Batch(1), OUT_OF_ORDER),
    ("a batch over the edge", [Batch(LAST - 1)], Batch(LAST, count=3), STORED),
    ("what follows it", [Batch(LAST, count=3)], Batch(2), STORED),
    ("and what does not", [Batch(LAST, count=3)], Batch(3), OUT_OF_ORDER),
    ("its repetition", [Batch(LAST, count=3)], Batch(LAST, count=3), 0),
    ("a new epoch begins at 0", SEVEN, Batch(0, epoch=1), STORED),
    ("and not elsewhere", SEVEN, Batch(7, epoch=1), OUT_OF_ORDER),
    ("what is repeated in a new epoch is new", SEVEN, Batch(6, epoch=1), OUT_OF_ORDER),
    ("an old epoch", [Batch(0, epoch=3)], Batch(1, epoch=2), OLD_EPOCH),
    ("what an old epoch repeats", [Batch(0, epoch=2), Batch(0, epoch=3)], Batch(0, epoch=2), OLD_EPOCH),
    # Transactions
    ("a transaction of which the coordinator was not asked", [], Batch(0, transactional=True), NO_TRANSACTION),
    ("one that is open here already", OPEN, Batch(1, transactional=True), STORED),
    ("a gap in it", OPEN, Batch(2, transactional=True), OUT_OF_ORDER),
    ("a record of no transaction in between", OPEN, Batch(1), NO_TRANSACTION),
    ("one that has been committed", [*OPEN, Marker()], Batch(1, transactional=True), NO_TRANSACTION),
    ("one that has been aborted", [*OPEN, Marker(commit=False)], Batch(1, transactional=True), NO_TRANSACTION),
    ("the next one of version 1 continues", [*OPEN, Marker()], Batch(1, verified=1), STORED),
    ("also with no transaction", [*OPEN, Marker()], Batch(1), STORED),
    ("and not from 0", [*OPEN, Marker()], Batch(0, count=2, verified=1), OUT_OF_ORDER),
    ("what was in it is known still", [*OPEN, Marker()], Batch(0, transactional=True), 0),
    ("the next one of version 2 starts again", [*OPEN_2, Marker(1, version=2)], Batch(0, 1, verified=2), STORED),
    ("and not elsewhere ", [*OPEN_2, Marker(1, version=2)], Batch(1, 1, verified=2), OUT_OF_ORDER),
    ("what comes late of the one before", [*OPEN_2, Marker(1, version=2)], Batch(1, verified=2), OLD_EPOCH),
    ("also unasked", [*OPEN_2, Marker(1, version=2)], Batch(1, transactional=True), OLD_EPOCH),
    ("a new epoch while one is open", OPEN, Batch(0, 1, transactional=True), NO_TRANSACTION),
    # Several batches on their way, the first of which waits for the coordinator
    ("a later one first", [Batch(0, verified=1, refused=True)], Batch(1, verified=1), OUT_OF_ORDER),
    ("the first one first", [Batch(1, verified=1, refused=True)], Batch(0, verified=1), STORED),
    ("the one that was refused", [Batch(3, verified=1, refused=True)], Batch(3, verified=1), STORED),
    ("a new epoch forgets it", [Batch(0, verified=1, refused=True)], Batch(5, 1, verified=1), STORED),
    ("the lowest counts", [Batch(3, verified=1, refused=True), Batch(2, verified=1, refused=True)],
     Batch(3, verified=1), OUT_OF_ORDER),
    ("a marker ends it", [*OPEN, Marker(), Batch(0, verified=1, refused=True), Marker()], Batch(1, verified=1), STORED),
    ("for a producer without records here, too", [Batch(0, verified=1, refused=True), Marker()], Batch(0, verified=1),
     STORED),
    ("of the next transaction it does not", [*OPEN_2, Batch(0, 1, verified=2, refused=True), Marker(1, version=2)],
     Batch(0, 1, verified=2), STORED),
    # Markers
    ("a marker of the same epoch", OPEN, Marker(), STORED),
    ("of a later one", OPEN, Marker(1), STORED),
    ("of an older one", [Batch(0, 2, verified=1)], Marker(1), OLD_EPOCH),
    ("a second one", [*OPEN, Marker()], Marker(), STORED),
    ("in version 2 it must be of a later epoch", OPEN_2, Marker(version=2), OLD_EPOCH),
    ("which it is", OPEN_2, Marker(1, version=2), STORED),
    ("a second one in version 2", [*OPEN_2, Marker(1, version=2)], Marker(1, version=2), STORED),
    ("late, into the next transaction", [*OPEN_2, Marker(1, version=2), Batch(0, 1, verified=2)],
     Marker(1, version=2), OLD_EPOCH),
    ("the last epoch there is", [Batch(0, 2**15 - 1, verified=2)], Marker(2**15 - 1, version=2), STORED),
    ("for a producer that is not known", [], Marker(5, 3, version=2), STORED),
    ("of an older coordinator", [*OPEN, Marker(coordinator_epoch=4)], Marker(coordinator_epoch=3),
     TransactionCoordinatorFencedError),
    ("of the same one", [*OPEN, Marker(coordinator_epoch=4)], Marker(coordinator_epoch=4), STORED),
]  # fmt: skip


# What was asked is forgotten by a crash, and so is the order that came with it.
CASES = [
    pytest.param(history, step, expected, crash, id=f"{name}{', after a crash' if crash else ''}")
    for name, history, step, expected in RULES
    for crash in (False, True)
    if not (crash and any(isinstance(before, Batch) and before.refused for before in history))
]


@pytest.mark.parametrize(("history", "step", "expected", "crash"), CASES)
def test_rule(store: Store, history: list[Batch | Marker], step: Batch | Marker, expected: object, crash: bool) -> None:
    log = store.log()
    for before in history:
        apply(log, before)
    if crash:
        log = store.reopened(clean=False)
    end, stable = log.log_end_offset, log.last_stable_offset
    if isinstance(expected, type) and issubclass(expected, KafkaError):
        with pytest.raises(expected):
            apply(log, step)
        assert (log.log_end_offset, log.last_stable_offset) == (end, stable)
        return
    result = apply(log, step)
    assert result is not None
    if expected == STORED:
        assert (result.base_offset, result.duplicate) == (end, False)
    else:
        assert (result.base_offset, result.duplicate, log.log_end_offset) == (expected, True, end)


def test_only_the_last_batch_survives_a_clean_stop(store: Store) -> None:
    log = store.log()
    for batch in SEVEN:
        apply(log, batch)
    log = store.reopened()
    result = apply(log, Batch(6))
    assert result is not None
    assert result.duplicate
    with pytest.raises(OutOfOrderSequenceError):
        apply(log, Batch(5))


def test_what_a_coordinator_writes_needs_its_transaction_too(log: PartitionLog) -> None:
    data = make_batch(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True)
    with pytest.raises(InvalidTxnStateError):
        log.append(data, leader_epoch=0, now_ms=START_MS, origin=Origin.COORDINATOR)
    log.append(data, leader_epoch=0, now_ms=START_MS, origin=Origin.COORDINATOR, verified=True)
    # Its sequences are not checked.
    log.append(data, leader_epoch=0, now_ms=START_MS, origin=Origin.COORDINATOR)


def test_nothing_is_asked_while_the_transaction_is_open(log: PartitionLog) -> None:
    def must_ask(epoch: int = 0) -> bool:
        return log.begin_verification(PRODUCER, epoch, 0, supports_epoch_bump=False) is not None

    assert must_ask()
    apply(log, OPEN[0])
    assert not must_ask()
    assert must_ask(1), "the one that is open is of an older epoch, and may have ended"
    apply(log, Marker(1))
    assert must_ask(1)
    with pytest.raises(InvalidProducerEpochError):
        must_ask()


@pytest.mark.parametrize(
    ("version", "between"),
    [
        (1, [Marker(commit=False)]),
        (1, [Marker(commit=False), "ask"]),
        (2, [Marker(1, version=2)]),
        (2, ["ask next"]),
        (2, [Marker(1, version=2), "ask next"]),
    ],
    ids=["ended", "begun again", "ended in version 2", "begun in version 2", "ended and begun in version 2"],
)
def test_a_late_answer_does_not_verify_a_newer_transaction(log: PartitionLog, version: int, between: list[Any]) -> None:
    def ask(epoch: int) -> Any:
        return log.begin_verification(PRODUCER, epoch, 0, supports_epoch_bump=version == 2)

    guard = ask(0)
    assert guard is not None
    assert ask(0) is guard, "two batches of one transaction ask together"
    for step in between:
        apply(log, step) if isinstance(step, Marker) else ask(1 if step == "ask next" else 0)
    late = make_batch(producer_id=PRODUCER, producer_epoch=0, base_sequence=0, is_transactional=True)
    end = log.log_end_offset
    with pytest.raises((InvalidTxnStateError, InvalidProducerEpochError)):
        log.append(late, leader_epoch=0, now_ms=START_MS, verified=guard)
    assert log.log_end_offset == end


def test_a_question_for_the_next_transaction_survives_the_marker_of_the_last(log: PartitionLog) -> None:
    apply(log, OPEN_2[0])
    guard = log.begin_verification(PRODUCER, 1, 0, supports_epoch_bump=True)
    assert guard is not None
    apply(log, Marker(1, version=2))
    data = make_batch(producer_id=PRODUCER, producer_epoch=1, base_sequence=0, is_transactional=True)
    assert log.append(data, leader_epoch=0, now_ms=START_MS, verified=guard).base_offset == 2


def test_a_question_that_came_to_nothing_is_forgotten_in_time(store: Store) -> None:
    log = store.log()
    apply(log, Batch(0, verified=1, refused=True))
    day = 86_400_000
    log.remove_expired_producers(START_MS + day - 1)
    with pytest.raises(OutOfOrderSequenceError):
        apply(log, Batch(5, verified=1))
    log.remove_expired_producers(START_MS + day)
    apply(log, Batch(5, verified=1))


def test_a_producer_with_an_open_transaction_is_not_forgotten(store: Store) -> None:
    log = store.log()
    apply(log, OPEN[0])
    for clean in (True, False):
        log = store.reopened(clean=clean)
        assert log.remove_expired_producers(START_MS + 10**12) == 0
        assert log.last_stable_offset == 0
    apply(log, Marker())
    assert log.remove_expired_producers(START_MS + 10**12) == 1


def test_the_last_stable_offset_waits_for_the_end_of_a_transaction_on_all_replicas(log: PartitionLog) -> None:
    log.on_append.clear()
    apply(log, Batch(0, verified=1))
    apply(log, Batch(1, transactional=True))
    log.update_high_watermark(2)
    assert log.last_stable_offset == 0
    apply(log, Marker(commit=False))
    assert log.last_stable_offset == 0, "another leader might not have the marker"
    log.update_high_watermark(3)
    assert log.last_stable_offset == 3
    assert log.read(0, 1000, isolation=Isolation.READ_COMMITTED).aborted == ((PRODUCER, 0),)


def test_how_long_the_last_stable_offset_has_been_held_where_it_is(store: Store) -> None:
    log = store.log()
    assert log.unstable_for_ms(START_MS + 5) == 0
    apply(log, Batch(0, verified=1))
    apply(log, Batch(1, transactional=True))
    assert log.unstable_for_ms(START_MS + 5) == 5
    store.clock.step(100)
    log = store.reopened(clean=False)
    assert log.unstable_for_ms(START_MS + 105) == 5, "nobody knows what was before"
    assert not log.has_late_transaction(START_MS + 1000, 1000)
    assert log.has_late_transaction(START_MS + 1001, 1000)
    apply(log, Marker())
    assert log.unstable_for_ms(START_MS + 200) == 0
    assert not log.has_late_transaction(START_MS + 10**9, 1000)
