"""The loop against clients in memory: whatever fails at whichever step, each record counts once, and no transaction
stays open."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from kclient import ConsumerRecord, ProducerRecord
from kclient.errors import (
    ClosedError,
    CommitFailedError,
    ConcurrentUseError,
    CorruptRecordError,
    GroupAuthorizationError,
    IllegalGenerationError,
    IllegalStateError,
    InvalidTxnStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    RecordTooLargeError,
    TopicAuthorizationError,
    TransactionAbortableError,
    TransformError,
    WakeupError,
)
from kclient.transform import loop as loop_module
from tests.kclient.transform.model import (
    ASYNC,
    PASSING,
    After,
    TransformModel,
    abortable,
    fatal,
    loop_of,
    name,
    run,
    run_async,
    same,
    whole,
)


@pytest.mark.parametrize("error", PASSING, ids=lambda error: error.name)
@pytest.mark.parametrize("step", ["send", "send_offsets_to_transaction", "commit_transaction"])
@pytest.mark.parametrize("face", ["blocking", "async"])
@pytest.mark.parametrize("before", [0, 1], ids=["first", "second"])
def test_what_passes_is_aborted_and_read_again(step: str, error: KafkaError, face: str, before: int) -> None:
    model = TransformModel(5, faults={step: [None] * before + [error]})
    loop = loop_of(model, same, **(ASYNC if face == "async" else {}))
    if face == "async":
        asyncio.run(run_async(loop))
    else:
        run(loop)
    assert sorted(model.results) == model.everything
    assert model.calls.count("abort_transaction") == 1
    whole(model)


@pytest.mark.parametrize("step", ["poll", "send", "begin_transaction", "committed", "commit_transaction"])
def test_nothing_is_lost_or_doubled_when_calls_time_out(step: str) -> None:
    late = KafkaTimeoutError("it took too long")
    faults: dict[str, Any] = {step: [late, late], "send": [abortable(TransactionAbortableError())]}
    faults[step] = faults[step] if step != "send" else [late, abortable(TransactionAbortableError())]
    model = TransformModel(5, faults=faults)
    run(loop_of(model, same))
    assert sorted(model.results) == model.everything
    whole(model)


def test_a_commit_with_an_unknown_outcome_is_repeated_and_not_aborted() -> None:
    late = KafkaTimeoutError("it took too long")
    model = TransformModel(3, faults={"commit_transaction": [late, After(late), None]})
    run(loop_of(model, same))
    assert sorted(model.results) == model.everything
    assert "abort_transaction" not in model.calls
    whole(model)


def test_an_abort_with_an_unknown_outcome_is_repeated() -> None:
    late = KafkaTimeoutError("it took too long")
    model = TransformModel(
        3, faults={"send": [abortable(TransactionAbortableError())], "abort_transaction": [late, After(late)]}
    )
    run(loop_of(model, same))
    assert sorted(model.results) == model.everything
    assert model.calls.count("abort_transaction") == 3
    whole(model)


def test_offsets_that_are_late_are_waited_for_by_the_commit() -> None:
    model = TransformModel(3, faults={"send_offsets_to_transaction": [After(KafkaTimeoutError("it took too long"))]})
    run(loop_of(model, same))
    assert sorted(model.results) == model.everything
    assert "abort_transaction" not in model.calls
    whole(model)


STAYING = [
    ("send", abortable(TopicAuthorizationError(topic="out"))),
    ("send_offsets_to_transaction", abortable(GroupAuthorizationError())),
    ("commit_transaction", abortable(RecordTooLargeError())),
    ("poll", CorruptRecordError(topic="in", partition=0, offset=3)),
    ("poll", WakeupError()),
    ("poll", ClosedError()),
    ("poll", GroupAuthorizationError()),
]


@pytest.mark.parametrize(("step", "error"), STAYING, ids=lambda value: str(getattr(value, "name", value)))
def test_what_stays_ends_the_loop_with_nothing_open(step: str, error: KafkaError) -> None:
    model = TransformModel(5, faults={step: [None, error]})
    with pytest.raises(type(error)) as raised:
        run(loop_of(model, same))
    assert raised.value is error
    whole(model)


def test_an_error_about_the_next_record_leaves_those_before_it_committed() -> None:
    model = TransformModel(1, faults={"poll": [None, CorruptRecordError(topic="in", partition=0, offset=1)]})
    with pytest.raises(CorruptRecordError):
        run(loop_of(model, same, max_records=100))
    assert sorted(model.results) == model.everything
    whole(model)


@pytest.mark.parametrize(
    "step", ["init_transactions", "begin_transaction", "send", "send_offsets_to_transaction", "commit_transaction"]
)
def test_a_fenced_producer_ends_the_loop(step: str) -> None:
    error = fatal(ProducerFencedError())
    model = TransformModel(5)

    def fence() -> None:
        model.state, model.fenced = "dead", error
        raise error

    model.faults[step] = [fence] if step == "init_transactions" else [None, fence]
    with pytest.raises(ProducerFencedError) as raised:
        run(loop_of(model, same))
    assert raised.value is error
    whole(model)


def test_an_error_that_passes_as_a_rule_ends_the_loop_when_it_is_fatal() -> None:
    model = TransformModel(5, faults={"commit_transaction": [fatal(InvalidTxnStateError())]})
    with pytest.raises(InvalidTxnStateError):
        run(loop_of(model, same))
    whole(model)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        ("poll", "abort_transaction"),
        ("send", "abort_transaction"),
        ("send_offsets_to_transaction", "abort_transaction"),
        ("commit_transaction", "commit_transaction"),
        ("abort_transaction", "abort_transaction"),
        ("committed", None),
    ],
)
def test_an_interruption_leaves_nothing_open(step: str, outcome: str | None, kind: type[BaseException]) -> None:
    faults: dict[str, Any] = {"send": [None, None, None, None, abortable(TransactionAbortableError())]}
    faults[step] = [kind()] if step in ("abort_transaction", "committed") else [None, kind()]
    model = TransformModel(5, faults=faults)
    with pytest.raises(kind):
        run(loop_of(model, same, max_records=4 if step != "poll" else 100))
    assert model.state == "ready"
    assert sorted(model.results) == model.counted
    if outcome is not None:
        assert [call for call in model.calls if call.endswith("transaction")][-1] == outcome


def test_after_an_interruption_the_transaction_is_given_five_seconds() -> None:
    given: list[float | None] = []

    class Patient(TransformModel):
        def abort_transaction(self, timeout: float | None) -> None:
            given.append(timeout)
            super().abort_transaction(timeout)

    with pytest.raises(KeyboardInterrupt):
        run(loop_of(Patient(3, faults={"send": [None, KeyboardInterrupt()]}), same))
    assert given == [5.0]


@pytest.mark.anyio
async def test_a_task_that_is_cancelled_aborts_its_transaction() -> None:
    model = TransformModel(5)

    async def hang(record: ConsumerRecord) -> ProducerRecord | None:
        if record.offset == 2:
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()
        return same(record)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_async, loop_of(model, hang, max_records=100, **ASYNC))
    assert (model.state, model.results) == ("ready", [])
    assert model.calls[-1] == "abort_transaction"


# -- when


def test_a_batch_is_committed_when_it_is_full() -> None:
    model = TransformModel(6)
    run(loop_of(model, same, max_records=4))
    assert model.calls.count("commit_transaction") == 3


def test_a_batch_is_committed_when_its_time_is_over_also_between_two_records() -> None:
    model = TransformModel(4)
    times = iter(range(1000))
    loop = loop_of(model, same, max_records=100, max_seconds=1.0, clock=lambda: float(next(times)))
    run(loop)
    assert model.calls.count("commit_transaction") >= 8, "each record takes longer than a batch may"
    assert sorted(model.results) == model.everything


def test_a_batch_gathers_the_records_of_several_polls() -> None:
    model = TransformModel(6)
    run(loop_of(model, same, max_records=100))
    assert model.calls.count("commit_transaction") == 1
    assert model.calls.count("begin_transaction") == 1


def test_stopping_commits_what_is_transformed_and_leaves_the_rest() -> None:
    model = TransformModel(4)

    def last(record: ConsumerRecord) -> ProducerRecord:
        if name(record) == "0-2":
            loop.stop()
        return same(record)

    loop = loop_of(model, last, max_records=100)
    run(loop)
    assert model.results == ["0-0", "0-1", "0-2"]
    whole(model)
    run(loop)
    assert len(model.results) == 3, "it stays stopped"


def test_a_batch_that_cannot_be_committed_when_it_is_to_stop_is_aborted() -> None:
    model = TransformModel(4, faults={"commit_transaction": [abortable(IllegalGenerationError())]})

    def last(record: ConsumerRecord) -> ProducerRecord:
        loop.stop()
        return same(record)

    loop = loop_of(model, last)
    run(loop)
    assert model.results == []
    whole(model)


def test_brokers_that_do_not_answer_do_not_keep_it_from_stopping() -> None:
    late = KafkaTimeoutError("nobody answers")
    model = TransformModel(4, faults={"commit_transaction": [late] * 9, "committed": [late]})

    def last(record: ConsumerRecord) -> ProducerRecord:
        loop.stop()
        return same(record)

    loop = loop_of(model, last)
    with pytest.raises(KafkaTimeoutError):
        run(loop)
    assert model.calls.count("commit_transaction") == 2


def test_pauses_grow_until_a_batch_is_committed() -> None:
    pauses: list[float | None] = []
    errors = [abortable(TransactionAbortableError()) for _ in range(9)]
    model = TransformModel(3, faults={"send": [*errors, *[None] * 3, abortable(TransactionAbortableError())]})
    run(loop_of(model, same), pauses)
    assert pauses[:7] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, loop_module.LONGEST_PAUSE]
    assert pauses[-1] == 0.1
    assert sorted(model.results) == model.everything


def test_two_at_once_are_refused() -> None:
    model = TransformModel(2)

    def again(record: ConsumerRecord) -> None:
        run(loop)

    loop = loop_of(model, again)
    with pytest.raises(TransformError) as raised:
        run(loop)
    assert isinstance(raised.value.__cause__, ConcurrentUseError)


def test_a_producer_that_has_its_id_already_is_taken_as_it_is() -> None:
    model = TransformModel(2)
    model.init_transactions()
    run(loop_of(model, same))
    assert sorted(model.results) == model.everything


def test_it_counts_what_it_does() -> None:
    model = TransformModel(3, faults={"commit_transaction": [None, abortable(CommitFailedError("it rebalanced"))]})
    loop = loop_of(model, same)
    run(loop)
    found = loop.metrics.metrics.snapshot()
    assert found["transform_records_in_total"] == found["transform_records_out_total"] == 6
    assert (found["transform_commit_total"], found["transform_abort_total"]) == (2, 1)
    assert found["transform_records_aborted_total"] == 3
    assert found["transform_batch_size_max"] == 3
    assert found["transform_batch_latency_avg"] >= found["transform_commit_latency_avg"] > 0


def test_event_that_the_phase_does_not_have_is_an_error() -> None:
    assert set(loop_module.STATES.states) == set(loop_module.Phase)
    loop = loop_of(TransformModel(1), same)
    with pytest.raises(IllegalStateError, match="transaction is 'none', where the event 'commit' is not possible"):
        loop._change(loop_module.Event.COMMIT)
