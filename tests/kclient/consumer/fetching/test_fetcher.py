"""Fetching against a model of brokers: which leader is asked, for how much, and what the application reads."""

from __future__ import annotations

import pytest

from kclient.protocol.messages.fetch import FetchRequest
from tests.kclient.consumer.fetching.model import T0, T1, model_with, offsets
from tests.support.consumer_model import Model
from tests.support.typed import built


@pytest.mark.parametrize("version", range(4, 19))
def test_reads_from_the_beginning_at_every_version(version: int) -> None:
    model = model_with(b"a", b"b", versions={FetchRequest: version})
    model.assign(T0)
    model.run()
    assert model.read() == [("t", 0, 0, b"a"), ("t", 0, 1, b"b")]
    model.logs[T0].append(b"c")
    model.run()
    assert model.read() == [("t", 0, 2, b"c")]


def test_next_fetch_goes_out_before_the_application_reads() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run(rounds=2)
    (request,) = model.poll()
    assert request.request_type is FetchRequest
    model.logs[T0].append(b"b")
    model.deliver()
    assert offsets(model) == [0, 1]


def test_several_leaders_are_asked_at_once_each_for_its_own() -> None:
    model = Model()
    for log in model.add_topic("t", 3):
        log.append(b"x")
    model.assign(*model.logs)
    model.poll()
    for request in list(model.outbox):
        model.deliver(request)
    assert sorted(request.node for request in model.poll()) == [1, 2, 3]
    model.run()
    assert sorted(model.read()) == [("t", partition, 0, b"x") for partition in range(3)]


def test_topic_without_an_id_is_fetched_by_name() -> None:
    model = Model()
    (log,) = model.add_topic("t", with_id=False)
    log.append(b"x")
    model.assign(T0)
    model.run()
    assert offsets(model) == [0]


def test_prefetch_stops_when_enough_is_unread_and_continues_when_it_was_read() -> None:
    model = model_with(max_partition_fetch_bytes=1_000, prefetch_max_bytes=10_000)
    for _ in range(200):
        model.logs[T0].append(b"x" * 100)
    model.assign(T0)
    model.run(rounds=100)
    assert model.buffer.bytes < 10_000
    assert model.poll() == []
    held = len(offsets(model, 3))
    read = held
    while got := len(offsets(model, 7)):
        read += got
        model.run(rounds=100)
        assert model.buffer.bytes < 10_000
    assert read == 200
    assert model.room_signals > 0


def test_many_partitions_share_the_room() -> None:
    model = Model(max_partition_fetch_bytes=4_000, prefetch_max_bytes=12_000, fetch_max_bytes=8_000)
    for log in model.add_topic("t", 9):
        for _ in range(20):
            log.append(b"x" * 500)
    model.assign(*model.logs)
    seen: dict[int, list[int]] = {}
    for _ in range(200):
        model.run(rounds=5)
        # One whole batch may come on top for each broker: a broker sends that however small the limit.
        assert model.buffer.bytes <= 12_000 + 3 * 700
        for _, partition, offset, _ in model.read(3):
            seen.setdefault(partition, []).append(offset)
    assert seen == {partition: list(range(20)) for partition in range(9)}


def test_record_larger_than_the_fetch_size_still_arrives() -> None:
    model = model_with(max_partition_fetch_bytes=100, fetch_max_bytes=100)
    model.logs[T0].append(b"x" * 5_000)
    model.logs[T0].append(b"y")
    model.assign(T0)
    model.run()
    seen = offsets(model)
    model.run()
    assert seen + offsets(model) == [0, 1]


def test_cut_off_first_batch_raises_the_limit_of_its_partition() -> None:
    model = model_with(b"x" * 5_000, max_partition_fetch_bytes=100)
    model.assign(T0)
    model.poll()
    model.deliver()
    (request,) = model.poll()
    response = model.answer(request)
    partition = response.responses[0].partitions[0]
    partition.records = bytes(partition.records[:100])
    model.outbox.clear()
    model.respond(request, response)
    (again,) = model.poll()
    assert built(again, FetchRequest, 18).topics[0].partitions[0].partition_max_bytes > 5_000


def test_partitions_take_turns() -> None:
    model = Model()
    for log in model.add_topic("t", 2):
        log.leader = 1
        for _ in range(3):
            log.append(b"x")
    model.refresh()
    model.assign(T0, T1)
    model.run(rounds=4)
    for log in model.logs.values():
        log.append(b"y")
    model.run(rounds=4)
    assert [(p, o) for _, p, o, _ in model.read()] == [
        *[(0, o) for o in range(3)],
        *[(1, o) for o in range(3)],
        (0, 3),
        (1, 3),
    ]


def test_seek_drops_what_was_fetched_and_what_is_on_its_way() -> None:
    model = model_with(*[b"x"] * 10)
    model.assign(T0)
    model.run(rounds=2)
    model.poll()
    assert offsets(model, 3) == [0, 1, 2]
    model.subscription.seek(T0, 7)
    model.run()
    assert offsets(model) == [7, 8, 9]
    model.subscription.seek(T0, 1)
    model.run()
    assert offsets(model) == list(range(1, 10))


def test_pause_keeps_what_was_fetched_and_resume_continues_exactly_there() -> None:
    model = model_with(*[b"x"] * 10)
    model.assign(T0)
    model.run()
    assert offsets(model, 3) == [0, 1, 2]
    model.subscription.pause([T0])
    assert offsets(model) == []
    assert all(request.request_type is not FetchRequest for request in model.poll())
    model.subscription.resume([T0])
    model.run()
    assert offsets(model) == list(range(3, 10))


def test_paused_partition_gives_its_room_to_others_and_is_fetched_again() -> None:
    model = Model(max_partition_fetch_bytes=4_000, prefetch_max_bytes=5_000)
    logs = model.add_topic("t", 2)
    for log in logs:
        log.leader = 1
        for _ in range(60):
            log.append(b"x" * 100)
    model.refresh()
    model.assign(T0)
    model.run()
    model.subscription.pause([T0])
    model.subscription.assign([T0, T1])
    model.subscription.start_uninitialized()
    seen: list[tuple[int, int]] = []
    for _ in range(30):
        model.run(rounds=5)
        seen += [(p, o) for _, p, o, _ in model.read()]
    model.subscription.resume([T0])
    for _ in range(30):
        model.run(rounds=5)
        seen += [(p, o) for _, p, o, _ in model.read()]
    assert [o for p, o in seen if p == 0] == list(range(60))
    assert [o for p, o in seen if p == 1] == list(range(60))


def test_unassigned_partition_is_dropped_and_one_that_stays_keeps_its_position() -> None:
    model = Model()
    for log in model.add_topic("t", 2):
        log.append(b"x", b"y", b"z")
    model.assign(T0, T1)
    model.run()
    model.read(1)
    model.assign(T0)
    model.run()
    assert [(p, o) for _, p, o, _ in model.read()] == [(0, 1), (0, 2)]


def test_owner_is_woken_once_and_only_when_it_waits() -> None:
    model = model_with(b"a")
    model.assign(T0)
    model.run()
    assert model.notified == 0
    assert offsets(model) == [0]
    assert offsets(model) == []
    model.logs[T0].append(b"b")
    model.run()
    model.logs[T0].append(b"c")
    model.run()
    assert model.notified == 1
    assert offsets(model) == [1, 2]


def test_high_watermark_gives_the_lag() -> None:
    model = model_with(*[b"x"] * 10)
    model.assign(T0)
    assert model.subscription.state(T0).lag(False) is None
    model.run()
    model.read(4)
    assert model.subscription.state(T0).lag(False) == 6
