"""The functions an application gives the loop: what happens to one record, and of records on which they fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from kclient import ConsumerRecord, ProducerRecord, TopicPartition
from kclient.errors import (
    KafkaTimeoutError,
    RecordTooLargeError,
    SerializationError,
    TransformError,
)
from tests.kclient.transform.model import (
    ASYNC,
    FIRST,
    TransformModel,
    loop_of,
    name,
    run,
    run_async,
    same,
    whole,
)


def double(record: ConsumerRecord) -> list[ProducerRecord]:
    return [same(record), same(record)]


def generate(record: ConsumerRecord) -> Iterator[ProducerRecord]:
    yield same(record)
    yield same(record)


async def double_later(record: ConsumerRecord) -> list[ProducerRecord]:
    return double(record)


async def generate_later(record: ConsumerRecord) -> AsyncIterator[ProducerRecord]:
    yield same(record)
    yield same(record)


@pytest.mark.parametrize("function", [double, generate])
def test_a_record_may_become_several(function: Any) -> None:
    model = TransformModel(3)
    model.enough = 12
    run(loop_of(model, function))
    assert sorted(model.results) == sorted(model.everything * 2)


@pytest.mark.parametrize("function", [double, generate, double_later, generate_later])
async def test_on_the_async_face_functions_may_be_of_either_kind(function: Any) -> None:
    model = TransformModel(3)
    model.enough = 12
    await run_async(loop_of(model, function, **ASYNC))
    assert sorted(model.results) == sorted(model.everything * 2)


def test_a_record_may_become_nothing_and_is_committed_nevertheless() -> None:
    model = TransformModel(5)
    model.enough = 5
    run(loop_of(model, lambda record: same(record) if record.partition else None))
    assert {tp.partition: committed.offset for tp, committed in model.group.items()} == {0: 5, 1: 5}
    assert model.group[FIRST].leader_epoch == 7


def fails(record: ConsumerRecord) -> ProducerRecord:
    if name(record) == "1-2":
        raise ZeroDivisionError("a poison record")
    return same(record)


async def fails_later(record: ConsumerRecord) -> ProducerRecord:
    return fails(record)


def fails_half_way(record: ConsumerRecord) -> Iterator[ProducerRecord]:
    yield same(record)
    yield fails(record)


@pytest.mark.parametrize("function", [fails, fails_half_way])
def test_a_poison_record_ends_the_loop_and_is_named(function: Any) -> None:
    model = TransformModel(5)
    loop = loop_of(model, function)
    with pytest.raises(TransformError, match="ZeroDivisionError: a poison record") as raised:
        run(loop)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == ("in", 1, 2)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert "1-2" not in model.results
    assert model.state == "ready"
    assert model.position[TopicPartition("in", 1)] <= 2


async def test_a_poison_record_of_a_coroutine_function_is_named_as_well() -> None:
    with pytest.raises(TransformError) as raised:
        await run_async(loop_of(TransformModel(5), fails_later, **ASYNC))
    assert (raised.value.partition, raised.value.offset) == (1, 2)


def test_after_a_poison_record_the_loop_may_run_again() -> None:
    model = TransformModel(5)
    poison = {"1-2"}

    def once(record: ConsumerRecord) -> ProducerRecord:
        if name(record) in poison:
            poison.clear()
            raise ValueError(record)
        return same(record)

    loop = loop_of(model, once)
    with pytest.raises(TransformError):
        run(loop)
    run(loop)
    assert sorted(model.results) == model.everything
    whole(model)


def skip(record: ConsumerRecord, error: Exception) -> None:
    assert isinstance(error, ZeroDivisionError)


def bury(record: ConsumerRecord, error: Exception) -> ProducerRecord:
    return ProducerRecord("dead-letters", f"dead {name(record)}")


@pytest.mark.parametrize(("on_error", "instead"), [(skip, []), (bury, ["dead 1-2"])])
@pytest.mark.parametrize("function", [fails, fails_half_way])
def test_on_error_may_skip_a_record_or_send_it_elsewhere(function: Any, on_error: Any, instead: list[str]) -> None:
    model = TransformModel(5)
    per_record = 2 if function is fails_half_way else 1
    model.enough = 9 * per_record + len(instead)
    run(loop_of(model, function, on_error))
    good = [one for one in model.everything if one != "1-2"]
    assert sorted(model.results) == sorted(good * per_record + instead)
    assert {committed.offset for committed in model.group.values()} == {5}


def test_what_on_error_raises_ends_the_loop() -> None:
    def refuse(record: ConsumerRecord, error: Exception) -> None:
        raise LookupError("not this one") from error

    with pytest.raises(TransformError, match="not this one") as raised:
        run(loop_of(TransformModel(5), fails, refuse))
    assert isinstance(raised.value.__cause__, LookupError)


def test_an_error_of_kafka_in_the_function_is_the_functions() -> None:
    def asks_another_cluster(record: ConsumerRecord) -> None:
        raise KafkaTimeoutError("the other cluster is slow")

    with pytest.raises(TransformError, match="the other cluster"):
        run(loop_of(TransformModel(5), asks_another_cluster))


@pytest.mark.parametrize(
    ("returned", "named"),
    [(b"bytes", "not b'bytes'"), (42, "not 42"), ("text", "not 'text'"), ([b"bytes"], "there is b'bytes' among them")],
)
def test_results_that_are_no_records_are_refused(returned: Any, named: str) -> None:
    with pytest.raises(TransformError, match=f"ProducerRecord.*{named}"):
        run(loop_of(TransformModel(1), lambda record: returned))


def test_what_turns_out_to_be_a_coroutine_needs_the_async_face() -> None:
    with pytest.raises(TransformError, match="AsyncTransform"):
        run(loop_of(TransformModel(1), lambda record: double_later(record)))


@pytest.mark.parametrize("error", [SerializationError("no bytes"), RecordTooLargeError(), TypeError()])
def test_results_that_cannot_be_sent_name_their_record(error: Exception) -> None:
    model = TransformModel(5, faults={"send": [None, error]})
    with pytest.raises(TransformError) as raised:
        run(loop_of(model, same))
    assert (raised.value.partition, raised.value.offset) == (0, 1)
    assert raised.value.__cause__ is error
    whole(model)
