"""Iteration survives exceptions, and both twins do the same."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from kclient.consumer.iteration import iterator as pure
from kclient.records import ConsumerRecord
from tests.support.typed import reread


def twins() -> list[Any]:
    found = [pytest.param(pure, id="pure")]
    try:
        found.append(pytest.param(importlib.import_module("kclient.consumer.iteration._iterator"), id="compiled"))
    except ImportError:
        pass
    return found


@pytest.fixture(params=twins())
def twin(request: pytest.FixtureRequest) -> Any:
    return request.param


def records(first: int, last: int) -> list[ConsumerRecord]:
    return [ConsumerRecord("t", 0, offset) for offset in range(first, last)]


def leave() -> None:
    """Nothing to do but what the iterator does itself."""


class Source:
    """Hands out chunks, or raises what stands in their place."""

    def __init__(self, *chunks: Any) -> None:
        self.chunks = list(chunks)

    def __call__(self) -> Iterator[ConsumerRecord]:
        chunk = self.chunks.pop(0)
        if isinstance(chunk, BaseException):
            raise chunk
        return iter(chunk)

    async def later(self) -> Iterator[ConsumerRecord]:
        return self()


def test_chunks_follow_each_other_and_empty_ones_are_passed_over(twin: Any) -> None:
    iterator = twin.RecordIterator(Source(records(0, 3), [], records(3, 5), KeyError()), leave)
    assert iter(iterator) is iterator
    seen: list[int] = []
    with pytest.raises(KeyError):
        seen.extend(record.offset for record in iterator)
    assert seen == [0, 1, 2, 3, 4]


def test_exception_ends_nothing(twin: Any) -> None:
    iterator = twin.RecordIterator(Source(records(0, 1), ValueError("once"), records(1, 2)), leave)
    assert next(iterator).offset == 0
    with pytest.raises(ValueError, match="once"):
        next(iterator)
    assert next(iterator).offset == 1


def test_exception_within_a_chunk_ends_only_the_chunk(twin: Any) -> None:
    def broken() -> Iterator[ConsumerRecord]:
        yield records(0, 1)[0]
        raise BufferError("changed")

    iterator = twin.RecordIterator(Source(broken(), records(1, 2)), leave)
    assert next(iterator).offset == 0
    with pytest.raises(BufferError):
        next(iterator)
    assert next(iterator).offset == 1


def test_last_record_is_known_until_the_next_chunk_or_drop(twin: Any) -> None:
    iterator = twin.RecordIterator(Source(records(0, 2), ValueError(), records(5, 7)), leave)
    assert reread(iterator.last) is None
    next(iterator)
    assert iterator.last.offset == 0
    next(iterator)
    with pytest.raises(ValueError):
        next(iterator)
    assert iterator.last.offset == 1
    next(iterator)
    assert iterator.last.offset == 5
    iterator.drop()
    assert iterator.last is None


async def test_async_iteration_does_the_same(twin: Any) -> None:
    iterator = twin.AsyncRecordIterator(
        Source(records(0, 3), [], ValueError("once"), records(3, 5), KeyError()).later, leave
    )
    seen = []

    async def read() -> None:
        async for record in iterator:
            assert iterator.last is record
            seen.append(record.offset)

    with pytest.raises(ValueError, match="once"):
        await read()
    with pytest.raises(KeyError):
        await read()
    assert seen == [0, 1, 2, 3, 4]


async def test_async_awaitables_keep_their_own_record(twin: Any) -> None:
    iterator = twin.AsyncRecordIterator(Source(records(0, 3)).later, leave)
    assert (await anext(iterator)).offset == 0
    first, second = anext(iterator), anext(iterator)
    assert (await first).offset == 1
    assert (await second).offset == 2
    iterator.drop()
    assert iterator.last is None


def test_interruption_leaves_the_chunk_before_the_next_record(twin: Any) -> None:
    left: list[int] = []

    def leave_chunk() -> None:
        left.append(iterator.last.offset)
        iterator.drop()

    iterator = twin.RecordIterator(Source(records(0, 5), records(10, 12)), leave_chunk)
    next(iterator)
    next(iterator)
    iterator.interrupted = True
    assert next(iterator).offset == 10
    assert left == [1]
    assert next(iterator).offset == 11


async def test_interruption_leaves_the_chunk_of_an_async_iteration(twin: Any) -> None:
    left: list[int] = []

    def leave_chunk() -> None:
        left.append(iterator.last.offset)
        iterator.drop()

    iterator = twin.AsyncRecordIterator(Source(records(0, 5), records(10, 12)).later, leave_chunk)
    await anext(iterator)
    iterator.interrupted = True
    assert (await anext(iterator)).offset == 10
    assert left == [0]
