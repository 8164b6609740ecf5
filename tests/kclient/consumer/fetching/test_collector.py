"""What leaves the fetch buffer: in turns, in order, and back where it came from when it was not read."""

from __future__ import annotations

import pytest

from kclient.consumer.assignment.partition_state import Position
from kclient.consumer.fetching.collector import Taken
from kclient.errors import CorruptRecordError
from kclient.records import ABORT, COMMIT, control_batch
from tests.kclient.consumer.fetching.model import T0, offsets
from tests.support.consumer_model import Batch, Log, Model, make_batch


def taken_by_iteration(model: Model, max_records: int) -> Taken:
    taken = model.collector.take(max_records)
    assert taken is not None
    return taken


def position(model: Model) -> Position | None:
    return model.subscription.state(T0).position


def model_with(count: int) -> Model:
    model = Model()
    (log,) = model.add_topic("t")
    for number in range(0, count, 2):
        log.append(b"%d" % number, b"%d" % (number + 1))
    model.assign(T0)
    model.run()
    return model


def test_position_stays_until_taken_records_are_settled() -> None:
    model = model_with(10)
    taken = taken_by_iteration(model, 4)
    assert position(model) == Position(0)
    model.collector.settle(taken, taken.end)
    assert position(model) == Position(4, 0)


def test_rest_of_a_chunk_is_read_again_after_it_was_given_back() -> None:
    model = model_with(10)
    taken = taken_by_iteration(model, 7)
    model.collector.give_back(taken, Position(3, 0))
    assert position(model) == Position(3, 0)
    assert offsets(model) == list(range(3, 10))


def test_chunk_that_ended_its_piece_can_be_given_back() -> None:
    model = model_with(10)
    taken = taken_by_iteration(model, 100)
    assert model.buffer.bytes == 0
    model.collector.give_back(taken, Position(9, 0))
    assert model.buffer.bytes > 0
    assert offsets(model) == [9]
    assert model.buffer.bytes == 0


def test_chunk_of_a_partition_that_moved_is_not_given_back() -> None:
    model = model_with(10)
    taken = taken_by_iteration(model, 4)
    model.subscription.seek(T0, 8)
    model.collector.give_back(taken, Position(1, 0))
    model.collector.settle(taken, taken.end)
    assert position(model) == Position(8)
    model.run()
    assert offsets(model) == [8, 9]


class TransactionLog(Log):
    """A log whose fetches name their aborted transactions, as a broker does for read_committed."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted: list[tuple[int, int, int]] = []

    def transaction(self, producer_id: int, count: int, marker: int) -> None:
        first = self.end
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        self.batches.append(make_batch(first, [b"x"] * count, 0, **options))
        ids = {"producer_id": producer_id, "producer_epoch": 0, "coordinator_epoch": 0}
        data = control_batch(marker, timestamp=0, base_offset=self.end, partition_leader_epoch=0, **ids)
        self.batches.append(Batch(self.end, [b""], 0, bytes(data)))
        if marker == ABORT:
            self.aborted.append((producer_id, first, self.end))


def committed_model() -> Model:
    model = Model(isolation_level="read_committed", auto_offset_reset="earliest")
    model.add_topic("t")
    log = model.logs[T0] = TransactionLog()
    log.transaction(7, 3, ABORT)
    log.transaction(7, 3, COMMIT)
    log.transaction(8, 2, ABORT)
    log.transaction(7, 2, COMMIT)
    model.refresh()
    model.assign(T0)
    return model


def test_aborted_records_and_markers_are_not_returned_and_the_position_passes_them() -> None:
    model = committed_model()
    model.run()
    assert offsets(model) == [4, 5, 6, 11, 12]
    assert position(model) == Position(14, 0)


def test_committed_records_that_were_given_back_come_again_and_aborted_ones_do_not() -> None:
    model = committed_model()
    model.run()
    taken = taken_by_iteration(model, 4)
    assert [record.offset for record in taken.chunk] == [4, 5, 6, 11]
    model.collector.give_back(taken, Position(5, 0))
    model.run()
    assert offsets(model) == [5, 6, 11, 12]


class MovesWhileDecoding:
    """A lock that lets something happen just before the collector looks again at what it decoded."""

    def __init__(self, model: Model, times: int) -> None:
        self._lock = model.subscription.lock
        self._model = model
        self._left = times
        self._entered = 0

    def __enter__(self) -> None:
        self._entered += 1
        if self._entered % 2 == 0 and self._left:
            self._left -= 1
            elect(self._model)
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def elect(model: Model) -> None:
    """Another leader, whom the consumer asks whether its place is still valid."""
    log = model.logs[T0]
    log.move(2 if log.leader == 1 else 1)
    model.refresh()


def test_leader_change_while_records_are_decoded_loses_none() -> None:
    model = model_with(10)
    model.collector._lock = MovesWhileDecoding(model, 2)  # type: ignore[assignment]
    assert offsets(model, 3) == [0, 1, 2]
    assert position(model) == Position(3, 0)
    assert offsets(model) == list(range(3, 10))


def test_leader_change_within_a_chunk_keeps_its_rest() -> None:
    model = model_with(10)
    taken = taken_by_iteration(model, 7)
    elect(model)
    model.collector.give_back(taken, Position(3, 0))
    assert position(model) == Position(3, 0)
    model.run()
    assert offsets(model) == list(range(3, 10))


def test_leader_change_within_a_chunk_keeps_the_position_moving() -> None:
    model = model_with(10)
    taken = taken_by_iteration(model, 7)
    elect(model)
    model.collector.settle(taken, taken.end)
    assert position(model) == Position(7, 0)


@pytest.mark.parametrize("records", [b"\0" * 10, make_batch(0, [b"0", b"1"], 0).data], ids=["cut off", "before"])
def test_answer_that_leads_nowhere_is_an_error_and_the_partition_continues(records: bytes) -> None:
    model = model_with(4)
    model.subscription.seek(T0, 2)
    answer = model.answer

    def nonsense(request: object) -> object:
        response = answer(request)  # type: ignore[arg-type]
        for topic in response.responses:
            for partition in topic.partitions:
                partition.records = records
        return response

    model.answer = nonsense  # type: ignore[method-assign]
    model.run()
    for _ in range(2):
        with pytest.raises(CorruptRecordError, match=r"no record at or after the offset") as caught:
            offsets(model)
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 2)
        model.run()
    model.answer = answer  # type: ignore[method-assign]
    with pytest.raises(CorruptRecordError):
        offsets(model)
    model.run()
    assert offsets(model) == [2, 3]


def test_records_before_an_answer_that_leads_nowhere_come_first() -> None:
    model = Model()
    first, second = model.add_topic("t", 2)
    first.append(b"0")
    second.append(b"0")
    model.assign(T0, ("t", 1))
    answer = model.answer

    def nonsense(request: object) -> object:
        response = answer(request)  # type: ignore[arg-type]
        for topic in getattr(response, "responses", ()):
            for partition in topic.partitions:
                if partition.partition_index and hasattr(partition, "records"):
                    partition.records = b"1234"
        return response

    model.answer = nonsense  # type: ignore[method-assign]
    model.run(3)
    assert model.read() == [("t", 0, 0, b"0")]
    with pytest.raises(CorruptRecordError):
        model.read()
