"""Rows of Arrow data in the accumulator, in both twins, and the future that tells which of them failed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kclient.errors import InvalidRecordError, RowsDeliveryError
from kclient.producer import accumulator as pure_accumulator
from kclient.producer.batch import BatchEvent
from kclient.producer.partitioners import partition_for_key
from kclient.producer.result import Piece
from kclient.producer.rows_future import Placement, RowsFuture
from kclient.records import RowColumns, pure, read_batches, row_arguments
from tests.support.producer_model import Model, implementations
from tests.support.typed import must

pyarrow = pytest.importorskip("pyarrow")


@pytest.fixture(params=implementations(), ids=lambda module: module.__name__.rpartition(".")[2])
def twin(request: pytest.FixtureRequest) -> Any:
    return request.param


def rows_of(twin: Any, data: dict[str, Any], to: str | None = "t", **columns: str) -> Any:
    from kclient import records

    kind = pure.ArrowRows if twin is pure_accumulator else records.ArrowRows
    return kind(**row_arguments(pyarrow.record_batch(data), RowColumns(**columns), to, 0))


def values(count: int, size: int = 0) -> Any:
    return pyarrow.array([(b"%d" % number).ljust(size, b".") for number in range(count)], pyarrow.binary())


def sent(model: Model) -> dict[int, list[Any]]:
    """What waits to be sent, by partition, decoded from the bytes that would travel."""
    found: dict[int, list[Any]] = {}
    for batch in model.parts.unsettled.take_all():
        for wire in read_batches(batch.build()):
            found.setdefault(batch.partition, []).extend(wire.records())
    return found


def test_rows_become_the_records_that_send_makes_of_them(twin: Any) -> None:
    count = 500
    data = {
        "value": pyarrow.array([None if n % 5 == 0 else b"v" * n for n in range(count)], pyarrow.binary()),
        "key": pyarrow.array([None if n % 7 == 0 else f"key-{n}" for n in range(count)]),
        "h": pyarrow.array(
            [None if n % 3 else [("h" * (n % 70), b"x" * n), ("b", None)] for n in range(count)],
            pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])),
        ),
        "p": pyarrow.array([n % 2 if n % 11 == 0 else None for n in range(count)]),
        "w": pyarrow.array([1000 + n for n in range(count)]),
    }
    rows = rows_of(twin, data, key="key", headers="h", partition="p", timestamp="w")
    ours, theirs = (Model(twin, [1, 1, 1], linger_ms=1000, buffer_memory=1 << 30) for _ in range(2))
    placement = Placement(count)
    assert ours.accumulator.append_rows(rows, placement, 0, count) == count
    for row in range(count):
        topic, value, key, headers, partition, timestamp = rows.record(row)
        assert theirs.accumulator.try_append(topic, value, key, headers, partition, timestamp) is not None
    assert ours.accumulator.used == theirs.accumulator.used

    def plain(model: Model) -> dict[int, list[Any]]:
        return {
            partition: [(r.key, r.value, r.headers, r.timestamp) for r in records]
            for partition, records in sent(model).items()
        }

    assert plain(ours) == plain(theirs)


def test_keys_go_where_murmur2_says_and_rows_without_stay_together(twin: Any) -> None:
    model = Model(twin, [1] * 7, linger_ms=1000)
    keys = [f"key-{number}" for number in range(100)]
    rows = rows_of(twin, {"value": values(100), "key": pyarrow.array(keys)}, key="key")
    placement = Placement(100)
    model.accumulator.append_rows(rows, placement, 0, 100)
    where = [placement.results[run].partition for run in placement.runs]
    assert where == [partition_for_key(key.encode(), 7) for key in keys]

    alone = Placement(100)
    model.accumulator.append_rows(rows_of(twin, {"value": values(100)}), alone, 0, 100)
    assert len({result.partition for result in alone.results}) == 1
    ignoring = Model(twin, [1] * 50, linger_ms=1000, partitioner_ignore_keys=True)
    ignored = Placement(100)
    ignoring.accumulator.append_rows(rows, ignored, 0, 100)
    assert len(ignored.results) == 1


def test_rows_without_a_timestamp_get_the_current_time(twin: Any) -> None:
    import time

    model = Model(twin, linger_ms=1000)
    before = time.time_ns() // 1_000_000
    model.accumulator.append_rows(rows_of(twin, {"value": values(2)}), Placement(2), 0, 2)
    (records,) = sent(model).values()
    assert all(before - 1 <= record.timestamp <= time.time_ns() // 1_000_000 for record in records)


def test_a_full_buffer_stops_at_the_row_that_has_no_room(twin: Any) -> None:
    model = Model(twin, buffer_memory=2000, batch_size=500)
    rows = rows_of(twin, {"value": values(100, 100)})
    placement = Placement(100)
    row = model.accumulator.append_rows(rows, placement, 0, 100)
    assert 10 <= row <= 19
    assert model.accumulator.used <= 2000
    assert [run >= 0 for run in placement.runs] == [True] * row + [False] * (100 - row)
    assert model.accumulator.append_rows(rows, placement, row, 100) == row
    while requests := model.poll():
        for request in requests:
            model.answer(request)
    assert model.accumulator.append_rows(rows, placement, row, 100) > row


@pytest.mark.parametrize("what", ["unknown topic", "not usable", "no such partition", "too large", "no partitions"])
def test_what_needs_a_closer_look_is_not_appended(twin: Any, what: str) -> None:
    model = Model(twin, max_request_size=1500)
    model.accumulator.add_topic("empty", 0)
    data = {"value": values(3, 2000 if what == "too large" else 5), "p": pyarrow.array([0, 1, 0])}
    topics = {"unknown topic": "other", "no partitions": "empty"}
    columns = {"partition": "p"} if what == "no such partition" else {}
    model.accumulator.usable = what != "not usable"
    rows = rows_of(twin, data, topics.get(what, "t"), **columns)
    expected = 1 if what == "no such partition" else 0
    assert model.accumulator.append_rows(rows, Placement(3), 0, 3) == expected


def test_each_row_goes_to_its_topic(twin: Any) -> None:
    model = Model(twin, linger_ms=1000)
    model.accumulator.add_topic("u", 1)
    rows = rows_of(twin, {"value": values(4), "topic": pyarrow.array(["t", "u", "t", "u"])}, None, topic="topic")
    placement = Placement(4)
    assert model.accumulator.append_rows(rows, placement, 0, 4) == 4
    assert [placement.results[run].topic for run in placement.runs] == ["t", "u", "t", "u"]


def test_a_batch_that_is_full_wakes_the_network_thread(twin: Any) -> None:
    model = Model(twin, linger_ms=1000, batch_size=300, buffer_memory=1 << 20)
    model.accumulator.append_rows(rows_of(twin, {"value": values(1)}), Placement(1), 0, 1)
    model.wakes = 0
    model.accumulator.append_rows(rows_of(twin, {"value": values(1)}), Placement(1), 0, 1)
    assert model.wakes == 0
    model.accumulator.append_rows(rows_of(twin, {"value": values(6, 100)}), Placement(6), 0, 6)
    assert model.wakes == 2


def test_failed_rows_are_reported_by_position_whatever_came_in_between(twin: Any) -> None:
    """Single records and other rows join the same batches; each future reports its own."""
    rng = random.Random(4)
    model = Model(twin, [1] * 3, linger_ms=1000, batch_size=400, buffer_memory=1 << 30)
    keys = [f"{rng.randrange(1000)}" for _ in range(300)]
    rows = rows_of(twin, {"value": values(300), "key": pyarrow.array(keys)}, key="key")
    one, two = Placement(300), Placement(300)
    done = [0, 0]
    while min(done) < 300:
        which = rng.randrange(2)
        stop = min(300, done[which] + rng.randrange(1, 20))
        placement = (one, two)[which]
        assert model.accumulator.append_rows(rows, placement, done[which], stop) == stop
        done[which] = stop
        if stop < 300 and rng.random() < 0.5:
            # The slow path of send_arrow places single rows.
            future = model.accumulator.try_append(*rows.record(stop))
            placement.add(stop, future._result, future.index)
            done[which] += 1
        model.send(b"other", key=b"%d" % rng.randrange(10))
    for batch in model.parts.unsettled.take_all():
        refused = {
            index: InvalidRecordError(f"{record.value!r} in {batch.partition}")
            for index, record in enumerate(decoded(batch))
            if record.value.endswith(b"7")
        }
        settle(model, batch, refused)
    expected = {row: f"b'{row}' in {partition_for_key(keys[row].encode(), 3)}" for row in range(7, 300, 10)}
    for placement in (one, two):
        failures = RowsFuture(placement).failures()
        assert {row: error.message for row, error in failures.items()} == expected  # type: ignore[attr-defined]
        assert list(failures) == sorted(failures)


def decoded(batch: Any) -> list[Any]:
    (wire,) = read_batches(batch.build())
    return wire.records()


def settle(model: Model, batch: Any, errors: dict[int, Any]) -> None:
    """As a broker that refuses some records: those fail, the others travel on in another batch."""
    batch.change(BatchEvent.SEND)
    if not errors:
        batch.deliver(0, -1)
        return
    records = decoded(batch)
    again = model.open_batch(batch.queue)
    pieces = [
        Piece(index, again.result, must(again.builder).append(5, None, record.value))
        for index, record in enumerate(records)
        if index not in errors
    ]
    batch.replace(pieces, errors)
    again.change(BatchEvent.SEND)
    again.deliver(0, -1)


def test_the_future_waits_for_batches_that_replace_others(twin: Any) -> None:
    model = Model(twin, linger_ms=1000)
    placement = Placement(3)
    model.accumulator.append_rows(rows_of(twin, {"value": values(3)}), placement, 0, 3)
    future = RowsFuture(placement)
    assert not future.done()
    with pytest.raises(TimeoutError, match="not all of 3 rows are delivered after 0 s"):
        future.result(0)
    (batch,) = model.parts.unsettled.take_all()
    again = model.open_batch(batch.queue)
    for value in (b"0", b"1", b"2"):
        must(again.builder).append(5, None, value)
    batch.change(BatchEvent.SEND)
    batch.replace([Piece(0, again.result, 0)], {})
    assert not future.done()
    again.change(BatchEvent.SEND)
    again.fail(InvalidRecordError("no"))
    assert future.done()
    with pytest.raises(RowsDeliveryError, match="3 of 3 rows could not be delivered; the first is row 0: ") as raised:
        future.result(0)
    assert list(raised.value.failures) == [0, 1, 2]
    assert again.result.unseen_failures() == []
    assert repr(future) == "<RowsFuture of 3 rows, settled>"


def test_no_rows_are_delivered_at_once() -> None:
    future = RowsFuture(Placement(0))
    assert future.done()
    future.result(0)
    assert len(future) == 0
