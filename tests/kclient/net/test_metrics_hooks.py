"""When metrics hooks are called, and that one which is slow or fails disturbs nothing."""

from __future__ import annotations

import pytest

from kclient.errors import ClosedError
from kclient.metrics import Metrics, MetricValues
from kclient.net.manager import NEVER
from kclient.net.metrics_hooks import MetricsHooks
from tests.kclient.net.scripted import QueueWorker, ScriptedEngine


class HookedMetrics:
    """Metrics with one counter, hooks over them and what the hook of this test has received."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.counter = self.metrics.counter("a_total")
        self.worker = QueueWorker()
        self.hooks = MetricsHooks(self.worker)
        self.received: list[float] = []

    def hook(self, values: MetricValues) -> None:
        self.received.append(values["a_total"])


@pytest.fixture
def hooked() -> HookedMetrics:
    return HookedMetrics()


def test_a_client_without_hooks_has_nothing_to_wait_for(hooked: HookedMetrics) -> None:
    assert hooked.hooks.poll(5.0) == ([], NEVER)


def test_a_hook_is_called_at_its_interval(hooked: HookedMetrics) -> None:
    hooked.hooks.add(hooked.hook, 10.0, hooked.metrics.snapshot, 100.0)
    assert hooked.hooks.poll(100.0).deadline == 110.0
    hooked.worker.run()
    assert hooked.received == []
    for now, due in ((110.0, 120.0), (125.0, 135.0)):
        hooked.counter.add()
        assert hooked.hooks.poll(now).deadline == due
        hooked.worker.run()
    assert hooked.received == [1, 2]


def test_a_call_that_has_not_begun_is_not_repeated(hooked: HookedMetrics) -> None:
    hooked.hooks.add(hooked.hook, 1.0, hooked.metrics.snapshot, 0.0)
    for now in range(1, 5):
        hooked.hooks.poll(now)
    hooked.worker.run()
    assert hooked.received == [0]


def test_a_hook_that_fails_is_logged_and_called_again(hooked: HookedMetrics, caplog: pytest.LogCaptureFixture) -> None:
    def fail(values: MetricValues) -> None:
        hooked.hook(values)
        raise RuntimeError("a user's mistake")

    hooked.hooks.add(fail, 1.0, hooked.metrics.snapshot, 0.0)
    for now in (1, 2):
        hooked.hooks.poll(now)
        hooked.worker.run()
    assert hooked.received == [0, 0]
    assert caplog.text.count("a metrics hook failed") == 2


def test_a_hook_receives_the_last_values_when_the_client_closes(hooked: HookedMetrics) -> None:
    hooked.hooks.add(hooked.hook, 3600.0, hooked.metrics.snapshot, 0.0)
    hooked.counter.add(5)
    hooked.hooks.close()
    assert hooked.received == [5]
    assert hooked.worker.closed


@pytest.mark.parametrize("interval", [0, -1, float("nan")], ids=["zero", "negative", "nan"])
def test_an_interval_that_is_not_positive_is_refused(interval: float) -> None:
    with pytest.raises(ValueError, match="a number of seconds above 0"):
        ScriptedEngine().engine.add_metrics_hook(print, interval)


def test_a_hook_is_a_plain_function() -> None:
    async def hook(values: MetricValues) -> None: ...

    with pytest.raises(TypeError, match="must be a plain function"):
        ScriptedEngine().engine.add_metrics_hook(hook, 1.0)  # type: ignore[arg-type]


def test_a_closed_client_takes_no_hook() -> None:
    engine = ScriptedEngine().engine
    engine.close(0.0)
    with pytest.raises(ClosedError):
        engine.add_metrics_hook(print, 1.0)
