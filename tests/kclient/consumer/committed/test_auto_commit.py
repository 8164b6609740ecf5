"""Automatic commits: what counts as processed, when it is committed, and what happens to failures."""

from __future__ import annotations

import time
from typing import Any

import pytest

from kclient.consumer.assignment.partition_state import Position
from kclient.consumer.group.generation import Generation
from kclient.consumer.iteration.current_chunk import Place
from kclient.errors import FencedInstanceIdError, KafkaTimeoutError, NotCoordinatorError, RetriableCommitFailedError
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from tests.kclient.consumer.committed.offsets_model import OTHER, TP, OffsetsModel
from tests.support.typed import first_step, reread

LOADING, REBALANCING, FENCED = 14, 27, 82


def automatic(**options: Any) -> OffsetsModel:
    model = OffsetsModel(enable_auto_commit=True, **options)
    model.run()
    return model


def final(model: OffsetsModel) -> bool:
    """What a rebalance does: commit what is processed."""
    operation = model.offsets.commit_before_rebalance(time.monotonic() + 5.0)
    step = first_step(operation)
    model.run()
    try:
        if step.future.done():
            operation.send(None)
        else:
            operation.throw(KafkaTimeoutError())
    except StopIteration as stop:
        return bool(stop.value)
    raise AssertionError("it waits again")


def test_only_what_earlier_calls_returned_is_committed() -> None:
    model = automatic()
    model.offsets.asked()
    model.read_to(TP, 10)
    model.pass_time(6.0)
    assert not model.history, "these records may still be worked on"
    model.offsets.asked()
    model.read_to(TP, 20)
    model.pass_time(6.0)
    assert model.history == [(TP, 10)]


def test_it_happens_every_interval_whatever_the_application_does() -> None:
    model = automatic(auto_commit_interval_ms=2000)
    model.read_to(TP, 10)
    model.offsets.asked()
    for _ in range(3):
        model.pass_time(2.0)
    assert len(model.history) == 3


def test_with_epochs_nothing_that_was_lost_meanwhile_is_committed_at_the_next_epoch() -> None:
    model = automatic(group_protocol="consumer")
    model.read_to(TP, 10)
    model.offsets.asked()
    assert model.coordinator.node is not None
    model.coordinator.forget(model.coordinator.node, NotCoordinatorError(), model.now)
    model.now += 6.0
    model.poll()  # the commit waits for the coordinator
    model.assign()  # the member was fenced, lost everything, and joined again
    model.assign(TP)
    model.generation = 2
    model.member.generation = Generation(2, "m", None, None)
    model.run()
    assert not model.history


def test_in_iteration_the_present_record_is_not_committed() -> None:
    model = automatic()
    model.read_to(TP, 10)
    model.offsets.asked()
    state = model.subscription.partitions[TP]
    model.place = Place(state, present=Position(15, 2), reached=Position(16, 2))
    model.pass_time(6.0)
    assert model.history == [(TP, 15)]
    assert model.stored[TP].leader_epoch == 2


def test_an_explicit_commit_takes_the_present_record_too() -> None:
    model = automatic()
    model.read_to(TP, 10)
    state = model.subscription.partitions[TP]
    model.place = Place(state, present=Position(15), reached=Position(16))
    next(model.offsets.commit(None, 1.0))
    model.run()
    assert model.history == [(TP, 16)]


@pytest.mark.parametrize("what", [None, {TP: 18}], ids=["everything", "an offset"])
def test_what_is_committed_explicitly_is_not_taken_back(what: Any) -> None:
    model = automatic()
    model.read_to(TP, 10)
    model.offsets.asked()
    model.subscription.partitions[TP].position = Position(20)
    next(model.offsets.commit(what, 1.0))
    model.run()
    committed = 20 if what is None else 18
    model.pass_time(6.0)
    assert model.history == [(TP, committed)] * 2
    model.offsets.commit_async({TP: 12}, None)
    model.offsets.commit_async({TP: 1_000}, None)
    model.run()
    model.pass_time(6.0)
    assert model.stored[TP].offset == committed, "other offsets say nothing about what is processed"


def test_a_record_that_is_committed_in_iteration_is_not_taken_back() -> None:
    model = automatic()
    model.read_to(TP, 10)
    model.offsets.asked()
    state = model.subscription.partitions[TP]
    model.place = Place(state, present=Position(15), reached=Position(16))
    next(model.offsets.commit({TP: 16}, 1.0))
    model.run()
    model.pass_time(6.0)
    assert model.history == [(TP, 16)] * 2
    model.place = Place(state, present=Position(17), reached=Position(18))
    model.pass_time(6.0)
    assert model.history[-1] == (TP, 17)


def test_the_timer_does_not_go_back_behind_what_the_end_has_committed() -> None:
    model = automatic()
    model.read_to(TP, 10)
    model.offsets.asked()
    model.subscription.partitions[TP].position = Position(20)
    final(model)
    model.pass_time(6.0)
    assert model.history == [(TP, 20), (TP, 20)]


def test_the_end_commits_nothing_as_a_stranger_while_the_group_rebalances() -> None:
    model = automatic()
    model.read_to(TP, 10)
    model.offsets.asked()
    model.member.generation, model.member.rebalancing = None, True
    assert final(model)
    assert not model.history


def test_a_failure_that_may_pass_is_followed_by_a_commit_with_newer_offsets() -> None:
    model = automatic()
    model.failures[OffsetCommitRequest] = [LOADING]
    model.read_to(TP, 10)
    model.offsets.asked()
    model.pass_time(5.0)
    assert isinstance(model.offsets.commit_error, RetriableCommitFailedError)
    model.read_to(TP, 20)
    model.offsets.asked()
    model.pass_time(0.2)
    assert model.history == [(TP, 20)]
    assert reread(model.offsets.commit_error) is None
    assert model.metrics.snapshot()["commit_failed_total"] == 1


def test_a_fenced_member_learns_of_it() -> None:
    model = automatic()
    model.failures[OffsetCommitRequest] = [FENCED]
    model.read_to(TP, 10)
    model.offsets.asked()
    model.pass_time(5.0)
    assert [type(error) for error in model.subscription.errors] == [FencedInstanceIdError]


def test_nothing_is_committed_while_the_group_rebalances_or_after_a_loss() -> None:
    model = automatic()
    model.read_to(TP, 10)
    model.offsets.asked()
    model.member.generation = None
    model.pass_time(20.0)
    assert not model.history
    assert not model.outbox


def test_a_rebalance_commits_everything_that_was_returned() -> None:
    model = automatic()
    model.offsets.asked()
    model.read_to(TP, 10)
    model.read_to(OTHER, 3)
    assert final(model)
    assert sorted(model.history) == [(TP, 10), (OTHER, 3)]


def test_a_rebalance_waits_for_commits_under_way_also_without_automatic_ones() -> None:
    model = OffsetsModel()
    told: list[object] = []
    model.offsets.commit_async({TP: 5}, lambda offsets, error: told.append(error))
    model.read_to(TP, 10)
    assert final(model)
    assert model.history == [(TP, 5)]
    assert told == [None]


def test_a_commit_before_a_rebalance_survives_its_call_and_the_next_waits_for_it() -> None:
    model = automatic()
    model.read_to(TP, 10)
    operation = model.offsets.commit_before_rebalance(time.monotonic())
    next(operation)
    request = model.until(OffsetCommitRequest)
    with pytest.raises(StopIteration) as stop:
        operation.throw(KafkaTimeoutError())
    assert stop.value.value is False
    again = model.offsets.commit_before_rebalance(time.monotonic() + 5.0)
    step = first_step(again)
    assert not step.future.done()
    model.deliver(request)
    assert step.future.done()
    assert model.history == [(TP, 10)]


def test_a_commit_before_a_rebalance_that_fails_is_over() -> None:
    model = automatic()
    model.read_to(TP, 10)
    model.failures[OffsetCommitRequest] = [REBALANCING]
    assert final(model)


def test_the_end_of_iteration_does_not_commit_its_last_record() -> None:
    model = automatic()
    model.read_to(TP, 10)
    state = model.subscription.partitions[TP]
    model.place = Place(state, present=Position(15), reached=Position(16))
    model.offsets.left_iteration()
    model.place = None
    model.read_to(TP, 16)
    final(model)
    assert model.history == [(TP, 15)]


def test_a_seek_after_iteration_is_committed_as_it_is() -> None:
    model = automatic()
    state = model.subscription.partitions[TP]
    model.place = Place(state, present=Position(15), reached=Position(16))
    model.offsets.left_iteration()
    model.place = None
    model.read_to(TP, 3)
    final(model)
    assert model.history == [(TP, 3)]


def test_after_a_failure_the_end_commits_only_what_earlier_calls_returned() -> None:
    model = automatic()
    model.read_to(TP, 10)
    model.offsets.asked()
    model.read_to(TP, 20)
    model.offsets.failed()
    final(model)
    assert model.history == [(TP, 10)]


def test_other_partitions_assigned_by_hand_leave_the_first_committed() -> None:
    model = OffsetsModel(enable_auto_commit=True, subscribed=False)
    model.subscription.assign([TP])
    model.read_to(TP, 10)
    model.offsets.commit_before_assign()
    model.subscription.assign([OTHER])
    model.run()
    assert model.history == [(TP, 10)]


def test_an_interval_of_zero_commits_without_flooding_the_coordinator() -> None:
    model = automatic(auto_commit_interval_ms=0)
    model.read_to(TP, 10)
    model.offsets.asked()
    model.pass_time(0.02)
    assert 0 < len(model.history) <= 3
