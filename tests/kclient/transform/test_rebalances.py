"""Partitions that come and go in the middle of a poll: a batch ends before they do, or does not count."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

import pytest

from kclient import RebalanceListener, TopicPartition
from kclient.errors import (
    KafkaError,
    MaxPollIntervalExceededError,
)
from tests.kclient.transform.model import (
    ASYNC,
    FIRST,
    PASSING,
    TransformModel,
    loop_of,
    run,
    run_async,
    same,
    whole,
)


class Hears(RebalanceListener):
    def __init__(self, model: TransformModel) -> None:
        self.model = model
        self.heard: list[tuple[str, str, int]] = []

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("revoked", self.model.state, len(self.model.results)))

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("lost", self.model.state, len(self.model.results)))


def test_a_batch_is_committed_before_a_partition_of_it_goes() -> None:
    model = TransformModel(2)
    listener = model.listener = Hears(model)
    model.faults["poll"] = [None, lambda: model.give_up([FIRST])]
    run(loop_of(model, same, max_records=100))
    # The application is notified when the whole batch is delivered.
    assert listener.heard == [("revoked", "ready", 4)]
    assert sorted(model.results) == model.everything
    assert model.listener is listener


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.name)
def test_a_batch_that_cannot_be_committed_before_a_partition_goes_is_aborted(error: KafkaError) -> None:
    model = TransformModel(2)
    model.faults["poll"] = [None, lambda: model.give_up([FIRST])]
    model.faults["commit_transaction"] = [error]
    model.enough = 2
    run(loop_of(model, same, max_records=100))
    assert model.results == ["1-0", "1-1"], "the other partition is read again, this one by somebody else"
    assert FIRST not in model.group
    whole(model)


def test_a_batch_is_aborted_when_its_partitions_are_lost() -> None:
    model = TransformModel(2)
    listener = model.listener = Hears(model)

    def lose() -> None:
        model.give_up(model.owned, lost=True)
        model.get(model.log)
        raise MaxPollIntervalExceededError(1)

    model.faults["poll"] = [None, lose]
    run(loop_of(model, same, max_records=100))
    assert listener.heard == [("lost", "open", 0)]
    assert model.calls.count("abort_transaction") == 1
    assert sorted(model.results) == model.everything


def test_partitions_lost_and_regained_within_a_poll_abort_the_transaction() -> None:
    model = TransformModel(2)

    def lose() -> None:
        model.give_up(model.owned, lost=True)
        model.get(model.log)

    model.faults["poll"] = [None, lose]
    run(loop_of(model, same, max_records=100))
    assert model.calls.count("abort_transaction") == 1
    assert sorted(model.results) == model.everything


def test_losing_partitions_between_two_batches_aborts_nothing() -> None:
    model = TransformModel(2)
    model.faults["poll"] = [lambda: model.give_up([FIRST], lost=True)]
    model.enough = 2
    run(loop_of(model, same))
    assert "abort_transaction" not in model.calls


async def test_the_async_consumer_commits_before_it_awaits_a_listener() -> None:
    model = TransformModel(2)
    heard: list[tuple[str, int]] = []

    class Later(RebalanceListener):
        async def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
            await asyncio.sleep(0)
            heard.append((model.state, len(model.results)))

    model.listener = Later()
    loop = loop_of(model, same, max_records=100, **ASYNC)
    told: list[Any] = []
    model.faults["poll"] = [None, lambda: told.append(model.give_up([FIRST]))]
    client = loop._consumer
    poll = client.poll

    async def poll_and_tell(*arguments: Any) -> Any:
        found = await poll(*arguments)
        while told:  # AsyncConsumer awaits its listener in the middle of a poll
            await told.pop()
        return found

    object.__setattr__(client, "poll", poll_and_tell)
    await run_async(loop)
    assert heard == [("ready", 4)]


def test_the_listeners_own_error_ends_the_loop() -> None:
    model = TransformModel(2)
    model.faults["poll"] = [None, ZeroDivisionError()]
    with pytest.raises(ZeroDivisionError):
        run(loop_of(model, same, max_records=100))
    whole(model)
