"""Futures, in both twins: waiting, callbacks, and whether somebody looked."""

from __future__ import annotations

import ast
import functools
import threading
from pathlib import Path
from typing import Any

import pytest

from kclient.errors import IllegalStateError, KafkaError, RecordTooLargeError, TopicAuthorizationError
from kclient.net.runtime import ThreadWorker
from kclient.producer import Producer, accumulator, producer
from kclient.producer.batch import BatchState
from kclient.producer.callbacks import Failures, WorkerDispatcher, deliver
from kclient.producer.future import RecordFuture
from tests.support.producer_model import Model, implementations


@pytest.fixture(params=implementations(), ids=lambda module: module.__name__.rpartition(".")[2])
def model(request: pytest.FixtureRequest) -> Model:
    return Model(request.param)


def test_a_pending_future_says_so(model: Model) -> None:
    future = model.send()
    assert not future.done()
    assert "pending" in repr(future)
    assert (future.topic, future.partition) == ("t", 0)
    with pytest.raises(TimeoutError, match="delivery continues") as raised:
        future.result(0)
    assert not isinstance(raised.value, KafkaError)
    with pytest.raises(TimeoutError):
        future.exception(0.001)


def test_a_delivered_and_a_failed_future_say_so(model: Model) -> None:
    delivered = model.send()
    model.answer(model.one())
    failed = model.send()
    model.answer(model.one(), code=10)
    assert "delivered" in repr(delivered)
    assert "MESSAGE_TOO_LARGE" in repr(failed)
    with pytest.raises(RecordTooLargeError):
        failed.result(0)


def test_a_waiting_thread_is_woken(model: Model) -> None:
    future = model.send()
    results: list[Any] = []
    waiting = [threading.Thread(target=lambda: results.append(future.result(10).offset)) for _ in range(3)]
    for thread in waiting:
        thread.start()
    model.answer(model.one(), offset=8)
    for thread in waiting:
        thread.join(10)
    assert results == [8, 8, 8]


def test_a_waiting_thread_follows_its_record_through_a_split(model: Model) -> None:
    futures = [model.send(b"%d" % number * 30) for number in range(4)]
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(futures[3].result(10).offset))
    thread.start()
    called: list[Any] = []
    futures[2].add_done_callback(called.append)
    model.answer(model.one(), code=10)
    assert not futures[3].done()
    assert called == []
    model.answer(model.one(), offset=0)
    model.answer(model.one(), offset=2)
    thread.join(10)
    assert results == [3]
    assert called == [futures[2]]
    assert futures[2].result(0).offset == 2


def test_callbacks_come_once_in_order_and_also_late(model: Model) -> None:
    called: list[int] = []
    futures = [model.send() for _ in range(3)]
    for number, future in enumerate(futures):
        future.add_done_callback(lambda _, number=number: called.append(number))
    model.answer(model.one())
    assert called == [0, 1, 2]
    futures[0].add_done_callback(lambda _: called.append(3))
    assert called == [0, 1, 2, 3]


def test_on_delivery_is_notified_through_a_split(model: Model) -> None:
    told: list[Any] = []
    for number in range(4):
        model.send(b"%d" % number * 30, on_delivery=lambda result, error: told.append((result, error)))
    model.answer(model.one(), code=10)
    assert [result.deliveries for result in model.outlet.done] == [[]]
    model.answer(model.one(), offset=0)
    model.answer(model.one(), code=29)
    for result in model.outlet.done:
        deliver(result)
        assert result.unseen_failures() == []
    assert [metadata.offset for metadata, _ in told[:2]] == [0, 1]
    assert [type(error) for _, error in told[2:]] == [TopicAuthorizationError] * 2


def test_a_coroutine_of_a_delivery_callback_is_logged_as_a_mistake(
    model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []

    async def coroutine(metadata: Any, error: Any) -> None:
        told.append(metadata)

    model.send(on_delivery=functools.partial(coroutine))
    model.send(on_delivery=lambda metadata, error: told.append(metadata.offset))
    model.answer(model.one(), offset=0)
    for result in model.outlet.done:
        deliver(result)
    assert told == [1]
    (record,) = caplog.records
    assert record.getMessage().startswith("on_delivery functools.partial(<function")
    assert record.getMessage().endswith("returned a coroutine, which nothing awaits; it did not run")


def test_coroutine_function_is_refused_as_a_done_callback(model: Model) -> None:
    async def callback(future: RecordFuture) -> None: ...

    future = model.send()
    refused: list[Any] = [callback, functools.partial(callback)]
    for given in refused:
        with pytest.raises(TypeError, match=r"^callback must be a plain function, not the coroutine function "):
            future.add_done_callback(given)
    model.answer(model.one())
    with pytest.raises(TypeError, match=r"^callback must be a function, not 5$"):
        future.add_done_callback(5)


def test_failures_count_until_somebody_looks(model: Model) -> None:
    failures = Failures()
    looked, called, waited, unseen = (model.send() for _ in range(4))
    called.add_done_callback(lambda _: None)
    with pytest.raises(TimeoutError):
        waited.result(0)
    model.answer(model.one(), code=29)
    for result in model.outlet.done:
        failures.add(result)
    assert looked.exception(0) is not None
    error = failures.take()
    assert error is not None
    assert error.count == 1
    assert error.errors == (unseen.exception(0),)
    assert failures.take() is None


def test_many_failures_are_counted_without_being_kept() -> None:
    model = Model()
    failures = Failures()
    for _ in range(Failures.KEPT_RESULTS + 5):
        model.send()
        model.answer(model.one(), code=29)
        failures.add(model.outlet.done.pop())
    assert len(failures._results) == Failures.KEPT_RESULTS
    error = failures.take()
    assert error is not None
    assert error.count == Failures.KEPT_RESULTS + 5
    assert len(error.errors) == Failures.KEPT_ERRORS


def test_a_settled_batch_stays_as_it_is() -> None:
    model = Model()
    model.send()
    (batch,) = model.parts.unsettled.take_all()
    model.answer(model.one())
    assert batch.state is BatchState.DELIVERED
    with pytest.raises(IllegalStateError, match="the batch is 'delivered', where the event 'fail' is not"):
        batch.fail(ValueError())


def test_the_callback_thread_starts_late_continues_after_an_error_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    dispatcher = WorkerDispatcher(ThreadWorker("callbacks-of-a-test"))
    assert not dispatcher.busy
    dispatcher.close(1)
    seen: list[Any] = []

    def broken(_: Any) -> None:
        raise RuntimeError("not my day")

    dispatcher.dispatch([(None, broken), (None, lambda _: seen.append(threading.current_thread().name))])
    passed = threading.Event()
    dispatcher.barrier(passed.set)
    assert passed.wait(10)
    dispatcher.close(10)
    assert seen == ["callbacks-of-a-test"]
    assert "not my day" in caplog.text


def test_the_pure_future_has_all_methods_of_the_other() -> None:
    for module in implementations():
        future = getattr(module, "RecordFuture", RecordFuture)
        for name in dir(RecordFuture):
            if not name.startswith("_"):
                assert hasattr(future, name), name


def test_producer_declares_send_as_its_base_class_does() -> None:
    declared = {}
    for module in (accumulator, producer):
        tree = ast.parse(Path(str(module.__file__)).read_text())
        (function,) = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "send")
        declared[module.__name__] = ast.unparse(function.args), ast.get_docstring(function)
    assert declared[accumulator.__name__] == declared[producer.__name__]


def test_public_objects_keep_the_accumulator_and_the_batch_to_themselves() -> None:
    assert [name for name in dir(Producer) if not name.startswith("_")] == [
        "abort_transaction",
        "add_metrics_hook",
        "begin_transaction",
        "close",
        "commit_transaction",
        "config",
        "flush",
        "from_properties",
        "health",
        "init_transactions",
        "metrics",
        "partitions_for",
        "prepare_transaction",
        "send",
        "send_arrow",
        "send_many",
        "send_offsets_to_transaction",
        "transaction",
    ]
    assert not hasattr(Model().send(), "batch")
