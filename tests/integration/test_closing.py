"""Closing clients whose broker is gone: in time, and without losing a word about the records that are lost."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Any

import anyio.lowlevel
import pytest

from kclient import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer
from kclient.consumer.core import ConsumerCore
from kclient.errors import ClosedError, DeliveryError, DeliveryUnknownError, RecordNotDeliveredError
from kclient.net.engine import EXIT_SECONDS
from kclient.net.operation import Operation
from refbroker.testing import RefBroker
from tests.support.patience import ANSWER, NEVER_MS

pytestmark = pytest.mark.refbroker_only


@pytest.fixture
def broker() -> Iterator[RefBroker]:
    with RefBroker() as running:
        yield running


@pytest.fixture
def collector_at_rest() -> Iterator[None]:
    """Nothing is collected unless the test says so: any thread's next allocation might do it, a line too early."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_close_whose_time_is_over_raises_for_the_records_it_gives_up(
    broker: RefBroker, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, delivery_timeout_ms=NEVER_MS)
    producer.send("orders", b"1").result(ANSWER)
    broker.stop()
    producer.send("orders", b"2")
    with pytest.raises(DeliveryError, match="closed before delivery"):
        producer.close(timeout=0.2)
    assert "did not stop" not in caplog.text


@pytest.mark.parametrize(
    ("options", "timeout"),
    [pytest.param({}, 0.2, id="argument"), pytest.param({"close_timeout_ms": 200}, None, id="option")],
)
def test_a_close_whose_time_is_over_still_runs_the_callbacks(
    broker: RefBroker, options: dict[str, Any], timeout: float | None
) -> None:
    told: list[BaseException | None] = []
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, **options)
    producer.send("orders", b"1").result(ANSWER)
    broker.stop()
    producer.send("orders", b"2", on_delivery=lambda _, error: told.append(error))
    producer.close(timeout)
    (error,) = told
    # Which of the two depends on whether the record was sent before the connection was found to be closed.
    assert isinstance(error, RecordNotDeliveredError | DeliveryUnknownError)
    assert isinstance(error.__cause__, ClosedError)


@pytest.mark.anyio
async def test_an_async_close_whose_time_is_over_raises_for_the_records_it_gives_up(
    broker: RefBroker, caplog: pytest.LogCaptureFixture
) -> None:
    producer = AsyncProducer(bootstrap_servers=broker.bootstrap_servers)
    await (await producer.send("orders", b"1"))
    broker.stop()
    await producer.send("orders", b"2")
    with pytest.raises(DeliveryError, match="closed before delivery"):
        await producer.close(timeout=0.2)
    assert "did not stop" not in caplog.text


def test_a_consumer_that_cannot_be_made_leaves_nothing_behind(
    broker: RefBroker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(TypeError, match=r"Consumer\('a', 'b'\)"):
        Consumer(["a", "b"], bootstrap_servers=broker.bootstrap_servers)  # type: ignore[arg-type]
    assert caplog.text == ""


@pytest.fixture
def leaving(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How many seconds each consumer may take to leave, as far as they begin to."""
    found: list[float] = []
    leave = ConsumerCore.leave

    def note(core: ConsumerCore, deadline: float, leave_group: bool | None) -> Operation[None]:
        # The difference of two clock readings can exceed the timeout by a rounding error.
        found.append(round(deadline - core.engine.clock(), 6))
        return leave(core, deadline, leave_group)

    monkeypatch.setattr(ConsumerCore, "leave", note)
    return found


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        pytest.param({}, 10.0, id="default"),
        pytest.param({"close_timeout_ms": 2_000}, 2.0, id="option"),
    ],
)
def test_a_consumer_closes_within_the_option_unless_close_has_a_timeout(
    broker: RefBroker, leaving: list[float], options: dict[str, Any], limit: float
) -> None:
    given = {"bootstrap_servers": broker.bootstrap_servers, "group_id": "g", **options}
    with Consumer("orders", **given):
        pass
    with pytest.raises(KeyError), Consumer("orders", **given):
        raise KeyError
    Consumer("orders", **given).close(40.0)
    allowed = [limit, limit, 40.0]
    assert all(most / 2 < seconds <= most for seconds, most in zip(leaving, allowed, strict=True)), leaving


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        pytest.param({"close_timeout_ms": NEVER_MS}, EXIT_SECONDS, id="no more than at exit"),
        pytest.param({"close_timeout_ms": 2_000}, 2.0, id="no more than the option"),
    ],
)
def test_an_interrupted_block_does_not_wait_for_long(
    broker: RefBroker, leaving: list[float], options: dict[str, Any], limit: float
) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        Consumer("orders", bootstrap_servers=broker.bootstrap_servers, group_id="g", **options),
    ):
        raise KeyboardInterrupt
    (seconds,) = leaving
    assert limit / 2 < seconds <= limit


@pytest.mark.usefixtures("collector_at_rest")
def test_an_admin_that_nobody_closed_warns_and_stops(broker: RefBroker, caplog: pytest.LogCaptureFixture) -> None:
    admin = Admin(bootstrap_servers=broker.bootstrap_servers)
    assert admin.list_topics() == {}
    engine = admin._core.engine
    owner: list[object] = [admin]
    owner.append(owner)  # a cycle, so that the collector alone ends it, where the test looks
    del admin, owner
    with pytest.warns(ResourceWarning, match="Admin 'kclient' was not closed"):
        gc.collect()
    assert engine.closed
    assert "did not stop" not in caplog.text


@pytest.mark.usefixtures("collector_at_rest")
def test_a_consumer_that_nobody_closed_warns_and_stops(broker: RefBroker, caplog: pytest.LogCaptureFixture) -> None:
    consumer = Consumer("orders", bootstrap_servers=broker.bootstrap_servers)
    assert not consumer.poll(timeout=0.1)
    engine = consumer._core.engine
    del consumer  # it and its iterator know each other, so that the collector alone ends it, where the test looks
    with pytest.warns(ResourceWarning, match="Consumer 'kclient' was not closed"):
        gc.collect()
    assert engine.closed
    assert "did not stop" not in caplog.text


@pytest.mark.anyio
@pytest.mark.usefixtures("collector_at_rest")
async def test_an_async_consumer_that_nobody_closed_warns_and_stops(broker: RefBroker) -> None:
    consumer = AsyncConsumer("orders", bootstrap_servers=broker.bootstrap_servers)
    assert not await consumer.poll(timeout=0.1)
    engine = consumer._core.engine
    # trio's loop keeps the exception that ended the wait, with all its frames, until this task yields again.
    await anyio.lowlevel.checkpoint()
    del consumer
    with pytest.warns(ResourceWarning, match="AsyncConsumer 'kclient' was not closed"):
        gc.collect()
    assert engine.closed


@pytest.mark.usefixtures("collector_at_rest")
def test_an_iterator_keeps_its_consumer(broker: RefBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", b"1").result(ANSWER)
    iterator = iter(Consumer("orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"))
    gc.collect()
    assert next(iterator).value == b"1"
    del iterator
    with pytest.warns(ResourceWarning, match="was not closed"):
        gc.collect()
