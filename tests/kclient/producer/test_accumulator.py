"""The accumulator, in both twins: where records go, when the network thread is woken, when there is no room."""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections import Counter
from typing import Any

import pytest

from kclient.producer import accumulator as pure
from kclient.producer.batch import ProducerBatch
from kclient.producer.partitioners import partition_for_key
from tests.support.producer_model import Model, implementations
from tests.support.typed import must


async def coroutine(metadata: Any, error: Any) -> None: ...


class Coroutines:
    async def method(self, metadata: Any, error: Any) -> None: ...

    def plain(self, metadata: Any, error: Any) -> None: ...


@pytest.fixture(params=implementations(), ids=lambda module: module.__name__.rpartition(".")[2])
def twin(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_records_of_one_partition_share_a_batch_in_order(twin: Any) -> None:
    model = Model(twin, linger_ms=5)
    futures = [model.send(b"%d" % number) for number in range(3)]
    assert [future.index for future in futures] == [0, 1, 2]
    assert len({id(future._result) for future in futures}) == 1
    assert [future.value_size for future in futures] == [1, 1, 1]
    assert futures[0].key_size == -1
    assert futures[0].timestamp == 5


def test_only_the_first_record_of_a_linger_wakes_the_network_thread(twin: Any) -> None:
    model = Model(twin, linger_ms=5)
    model.wakes = 0
    for _ in range(10):
        model.send()
    assert model.wakes == 1


def test_a_record_that_is_due_after_the_next_check_wakes_nobody(twin: Any) -> None:
    model = Model(twin, [1, 1], linger_ms=5)
    model.send(partition=0)
    model.poll()
    model.wakes = 0
    model.now += 0.001
    model.send(partition=1)
    assert model.wakes == 0
    assert model.deadline == pytest.approx(1000.005)


def test_a_full_batch_wakes_the_network_thread_and_makes_room_for_another(twin: Any) -> None:
    model = Model(twin, linger_ms=1000, batch_size=300)
    futures = [model.send(b"x" * 100) for _ in range(3)]
    assert [future.index for future in futures] == [0, 1, 0]
    assert len(model.topic.partitions[0].ready) == 1
    assert model.topic.partitions[0].size() == 2


def test_a_key_goes_where_murmur2_says(twin: Any) -> None:
    model = Model(twin, [1] * 7)
    for number in range(50):
        key = b"key-%d" % number
        assert model.send(key=key).partition == partition_for_key(key, 7)


def test_keys_are_ignored_if_asked_for(twin: Any) -> None:
    model = Model(twin, [1] * 50, partitioner_ignore_keys=True, linger_ms=50)
    assert len({model.send(key=b"%d" % number).partition for number in range(20)}) == 1


def test_records_without_keys_stay_together_until_their_batch_is_full(twin: Any) -> None:
    model = Model(twin, [1] * 4, linger_ms=1000, batch_size=20_000, buffer_memory=1 << 30)
    partitions = [model.send(b"x" * 1000).partition for _ in range(400)]
    changes = sum(before != after for before, after in itertools.pairwise(partitions))
    assert changes <= 400 / 19
    assert set(partitions) == {0, 1, 2, 3}
    full = [batch for queue in model.topic.partitions for batch in queue.ready]
    assert all(batch.count == 19 for batch in full)


def test_sticky_choices_are_spread_evenly(twin: Any) -> None:
    model = Model(twin, [1] * 8)
    counts = Counter(model.topic.next_partition() for _ in range(8000))
    assert all(850 < counts[partition] < 1150 for partition in range(8))


def test_sticky_choices_follow_their_weights(twin: Any) -> None:
    model = Model(twin, [1] * 3)
    model.topic.offer([0, 1, 2], [4, 5, 8])
    counts = Counter(model.topic.next_partition() for _ in range(8000))
    assert 3700 < counts[0] < 4300
    assert 850 < counts[1] < 1150
    assert 2700 < counts[2] < 3300


def test_both_twins_make_the_same_choices_from_the_same_seed() -> None:
    chosen = []
    for module in implementations():
        model = Model(module, [1] * 8)
        plain = [model.topic.next_partition() for _ in range(50)]
        model.topic.offer(range(8), [1, 3, 6, 10, 15, 21, 28, 36])
        chosen.append(plain + [model.topic.next_partition() for _ in range(50)])
    assert all(choice == chosen[0] for choice in chosen)


def test_record_without_a_timestamp_has_the_time_of_the_given_clock(twin: Any) -> None:
    model = Model(twin, time_ms=lambda: 1234)
    future = model.accumulator.try_append("t", b"v")
    assert future is not None
    assert future.timestamp == 1234


def test_partitions_without_a_leader_are_not_chosen(twin: Any) -> None:
    model = Model(twin, [1] * 3)
    model.topic.offer([0, 2])
    assert {model.topic.next_partition() for _ in range(100)} == {0, 2}


def test_a_low_rate_changes_partitions_between_batches(twin: Any) -> None:
    model = Model(twin, [1] * 8)
    seen = set()
    for number in range(60):
        seen.add(model.send(b"x" * 5000).partition)
        model.answer(model.one(), offset=number)
    assert len(seen) > 3


@pytest.mark.parametrize(
    "record",
    [
        {"value": "text"},
        {"value": bytearray(b"x")},
        {"key": 5},
        {"headers": [("h", "text")]},
        pytest.param({"headers": iter([])}, id="headers=iterator"),
        {"partition": 1},
        {"partition": -1},
        {"timestamp": -1},
        pytest.param({"value": b"x" * 2_000_000}, id="value=2 MB"),
        {"on_delivery": 5},
        pytest.param({"on_delivery": coroutine}, id="on_delivery=async function"),
        pytest.param({"on_delivery": Coroutines().method}, id="on_delivery=async method"),
    ],
)
def test_what_needs_a_closer_look_is_not_appended(twin: Any, record: dict[str, Any]) -> None:
    model = Model(twin)
    assert model.accumulator.try_append("t", **{"value": b"v", **record}) is None
    assert model.accumulator.used == 0


def test_whatever_else_can_be_called_is_a_delivery_callback(twin: Any) -> None:
    model = Model(twin)
    for callback in (print, lambda *told: None, Coroutines().plain, functools.partial(print), Coroutines):
        assert model.accumulator.try_append("t", b"v", on_delivery=callback) is not None


def test_an_unknown_topic_is_not_appended_to(twin: Any) -> None:
    model = Model(twin)
    for topic in ("other", None, 5):
        assert model.accumulator.try_append(topic, b"v") is None
    model.send()
    assert model.accumulator.try_append("other", b"v") is None


def test_headers_are_appended(twin: Any) -> None:
    model = Model(twin)
    model.send(headers=[("a", b"1"), ("b", None)])
    model.send(headers=(("c", b""),))
    (batch,) = model.batches(model.one()).values()
    assert [record.headers for record in batch.records()] == [(("a", b"1"), ("b", None)), (("c", b""),)]


def test_a_full_buffer_refuses_until_a_batch_is_settled(twin: Any) -> None:
    model = Model(twin, buffer_memory=1000, batch_size=500)
    sent = 0
    while model.accumulator.try_append("t", b"x" * 100, timestamp=1) is not None:
        sent += 1
    assert 5 <= sent <= 9
    assert model.accumulator.used <= 1000
    for request in model.poll():
        model.answer(request)
    for request in model.poll():
        model.answer(request)
    assert model.accumulator.used == 0
    assert model.send(b"x" * 100).index == 0


def test_nothing_is_appended_once_it_is_not_usable(twin: Any) -> None:
    model = Model(twin)
    model.accumulator.usable = False
    assert model.accumulator.try_append("t", b"v") is None


def test_a_send_that_was_overtaken_by_the_end_of_a_transaction_appends_nothing(twin: Any) -> None:
    """Its record would be one of the next transaction."""

    class Overtaken(Model):
        def open_batch(self, queue: Any) -> ProducerBatch:
            self.accumulator.usable = False
            return super().open_batch(queue)

    model = Overtaken(twin)
    assert model.accumulator.try_append("t", b"late", partition=0) is None
    assert model.topic.partitions[0].size() == 0


def test_a_topic_in_use_is_not_forgotten(twin: Any) -> None:
    model = Model(twin)
    model.send()
    assert not model.accumulator.remove_topic("t")
    model.answer(model.one())
    model.poll()
    assert model.accumulator.remove_topic("t")
    assert model.accumulator.try_append("t", b"v") is None


def test_partitions_are_added_and_removed(twin: Any) -> None:
    model = Model(twin)
    first = model.topic.partitions[0]
    model.accumulator.add_topic("t", 3)
    assert [queue.partition for queue in model.topic.partitions] == [0, 1, 2]
    assert model.topic.partitions[0] is first
    model.accumulator.add_topic("t", 2)
    assert len(model.topic.partitions) == 2


def test_many_threads_lose_and_repeat_nothing(twin: Any) -> None:
    model = Model(twin, [1] * 3, linger_ms=1000, batch_size=2000, buffer_memory=1 << 30)
    count, threads = 2000, 4

    def run(thread: int) -> None:
        for number in range(count):
            headers = ((f"h{thread}", b"x"),) if number % 3 == 0 else ()
            assert model.accumulator.try_append("t", b"%d-%d" % (thread, number), headers=headers, timestamp=1)

    workers = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    used = model.accumulator.used
    batches = model.parts.unsettled.take_all()
    assert used == sum(must(batch.builder).size_in_bytes for batch in batches)
    from kclient.records import read_batches

    values = [record.value for batch in batches for wire in read_batches(batch.build()) for record in wire.records()]
    assert sorted(values) == sorted(b"%d-%d" % (t, n) for t in range(threads) for n in range(count))


def test_the_twins_have_the_same_methods() -> None:
    for module in implementations():
        for name in ("Accumulator", "PartitionQueue", "TopicQueue", "SendPath"):
            ours, theirs = getattr(pure, name), getattr(module, name)
            for method, function in inspect.getmembers(ours, inspect.isfunction):
                if not method.startswith("_"):
                    parameters = list(inspect.signature(function).parameters)
                    assert list(inspect.signature(getattr(theirs, method)).parameters) == parameters, method


@pytest.mark.parametrize(
    "headers",
    [[("h", b"x" * 2000)], [("h" * 2000, None)], [("\ud800", b"not UTF-8")]],
    ids=["long value", "long key", "surrogate"],
)
def test_headers_that_need_a_closer_look_are_not_appended(twin: Any, headers: Any) -> None:
    model = Model(twin, max_request_size=1500)
    assert model.accumulator.try_append("t", b"v", None, headers) is None
    assert model.accumulator.used == 0


def test_headers_count_before_they_are_let_into_the_buffer(twin: Any) -> None:
    model = Model(twin, buffer_memory=2000)
    model.send(b"v" * 1000)
    assert model.accumulator.try_append("t", b"v", None, [("h", b"x" * 1000)]) is None
    assert model.accumulator.used < 2000


def test_a_topic_without_partitions_takes_nothing(twin: Any) -> None:
    model = Model(twin)
    model.accumulator.add_topic("empty", 0)
    assert model.accumulator.try_append("empty", b"v", b"k", partition=0) is None
