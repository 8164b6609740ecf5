"""Fetching when the metadata changes: new partitions, and topics that are deleted and created again."""

from __future__ import annotations

import uuid

import pytest

from kclient.consumer.assignment.topics import choose
from kclient.errors import IllegalStateError, OffsetOutOfRangeError
from tests.kclient.consumer.fetching.model import T0, T1, model_with, offsets
from tests.support.consumer_model import Log, Model


def test_subscribed_topic_lets_new_partitions_join_from_their_beginning() -> None:
    model = Model(auto_offset_reset="latest")
    (log,) = model.add_topic("t")
    log.append(b"old")
    model.subscription.subscribe(choose("t"))
    model.refresh()
    model.subscription.start_uninitialized()
    model.run()
    assert model.read() == []
    log.append(b"new")
    logs = model.add_topic("t", 2)
    model.logs[T0] = log
    model.refresh()
    logs[1].append(b"first")
    model.subscription.start_uninitialized()
    model.run()
    assert sorted(model.read()) == [("t", 0, 1, b"new"), ("t", 1, 0, b"first")]


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_topic_created_again_is_read_from_its_beginning_after_the_old_one(policy: str) -> None:
    model = model_with(auto_offset_reset=policy)
    model.assign(T0)
    model.run()
    model.logs[T0].append(b"a", b"b", b"c")
    model.run()
    del model.logs[T0]
    model.ids.clear()
    model.ids["other"] = uuid.UUID(int=8)
    model.refresh()
    model.ids["t"] = uuid.UUID(int=9)
    model.logs[T0] = Log()
    model.logs[T0].append(b"x", b"y", b"z")
    model.logs[T0].append(b"!")
    model.now += 10
    model.run()
    assert [value for *_, value in model.read()] == [b"a", b"b", b"c"]
    seen: list[bytes] = []
    for _ in range(3):
        model.run()
        seen += [value for *_, value in model.read()]
    assert seen == [b"x", b"y", b"z", b"!"]


def recreate(model: Model, partitions: int) -> list[Log]:
    """Delete the topic `t` and create it again under another id."""
    for tp in list(model.logs):
        del model.logs[tp]
    model.ids.clear()
    model.refresh()
    model.ids["t"] = uuid.UUID(int=9)
    return model.add_topic("t", partitions)


def two_partitions_read(policy: str) -> Model:
    """A subscription to a topic that was created again with one partition, with unread records of its old two."""
    model = Model(auto_offset_reset=policy)
    logs = model.add_topic("t", 2)
    model.subscription.subscribe(choose("t"))
    model.refresh()
    for partition, log in zip((T0, T1), logs, strict=True):
        model.subscription.seek(partition, 0)
        log.append(b"old")
    model.run()
    (log,) = recreate(model, 1)
    log.append(b"new")
    assert sorted(model.read()) == [("t", 0, 0, b"old"), ("t", 1, 0, b"old")]
    assert set(model.subscription.partitions) == {T0, T1}
    return model


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_partition_that_a_topic_created_again_does_not_have_goes_once_it_is_read(policy: str) -> None:
    model = two_partitions_read(policy)
    assert model.read() == []
    assert set(model.subscription.partitions) == {T0}
    model.run()
    assert model.read() == [("t", 0, 0, b"new")]


def test_a_partition_that_is_gone_needs_no_reset_policy() -> None:
    model = two_partitions_read("none")
    with pytest.raises(OffsetOutOfRangeError) as raised:
        model.read()
    assert (raised.value.topic, raised.value.partition) == T0
    assert model.read() == []
    assert set(model.subscription.partitions) == {T0}


def test_a_partition_without_a_position_goes_at_once_with_its_topic() -> None:
    model = Model()
    model.add_topic("t", 2)
    model.subscription.subscribe(choose("t"))
    model.refresh()
    assert set(model.subscription.partitions) == {T0, T1}
    recreate(model, 1)
    assert set(model.subscription.partitions) == {T0}


def test_a_partition_that_comes_back_with_a_later_topic_is_read_from_its_beginning() -> None:
    model = Model(auto_offset_reset="latest")
    model.add_topic("t", 2)
    model.subscription.subscribe(choose("t"))
    model.refresh()
    model.subscription.start_uninitialized()
    model.run()
    recreate(model, 1)
    model.run()
    assert model.read() == []
    assert set(model.subscription.partitions) == {T0}
    model.add_topic("t", 2)[1].append(b"late")
    model.subscription.start_uninitialized()
    model.run()
    assert model.read() == [("t", 1, 0, b"late")]


def test_assigned_partitions_stay_whatever_happens_to_their_topic() -> None:
    model = Model()
    model.add_topic("t", 2)
    model.assign(T0, T1)
    model.run()
    recreate(model, 1)
    model.run()
    assert model.read() == []
    assert set(model.subscription.partitions) == {T0, T1}


def test_seek_of_a_subscribed_topic_need_not_wait_for_its_metadata() -> None:
    model = Model()
    model.subscription.subscribe(choose("t"))
    model.subscription.seek(T0, 2)
    (log,) = model.add_topic("t")
    log.append(b"a", b"b", b"c")
    model.subscription.start_uninitialized()
    model.run()
    assert offsets(model) == [2]
    with pytest.raises(IllegalStateError):
        model.subscription.seek(T1, 0)
