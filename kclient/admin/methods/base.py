"""What all methods of the admin clients share: the core, and running an operation to its end.

The methods themselves are in the other modules of this package, and the operations in those of `kclient.admin`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from kclient._misuse import refuse_pickling
from kclient.admin.core import AdminCore
from kclient.metrics import MetricsHook, MetricValues
from kclient.net.operation import Operation, TaskWaiter, ThreadWaiter, run, run_async
from kclient.net.waiting import LoopBridge
from kclient.types import ClientHealth

T = TypeVar("T")
C = TypeVar("C", bound=type)


class ClientMethods:
    """The methods that are the same for threads and for tasks, since none of them waits."""

    _core: AdminCore

    def health(self) -> ClientHealth:
        """Return whether any broker is reachable, and the last error of each that is not. Any thread may call this.

        The call sends no request.
        """
        return self._core.health()

    def metrics(self) -> MetricValues:
        """Return the metrics by Kafka's names."""
        return self._core.engine.metrics.snapshot()

    def add_metrics_hook(self, hook: MetricsHook, *, interval: float = 10.0) -> None:
        """Call a function with the metrics at an interval, and a last time when the client closes.

        The function runs on a thread of its own, so it may block. What it raises is logged, and it is called again
        after the next interval.

        Parameters:
            hook: a plain function; it receives what `metrics()` returns.
            interval: seconds between two calls.

        Raises:
            TypeError: the hook is not a plain function.
            ValueError: the interval is not positive.
            ClosedError: the client was closed.
        """
        self._core.engine.add_metrics_hook(hook, interval)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def __repr__(self) -> str:
        state = "closed" if self._core.engine.closed else "open"
        return f"<{type(self).__name__} {self._core.config.client_id!r} {state}>"

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.drop(type(self).__name__)


class BlockingMethods(ClientMethods):
    """Methods that block the calling thread."""

    def _run(self, operation: Operation[T]) -> T:
        return run(operation, ThreadWaiter())


class AsyncMethods(ClientMethods):
    """Methods that wait in an event loop."""

    _bridge: LoopBridge

    async def _run(self, operation: Operation[T]) -> T:
        return await run_async(operation, TaskWaiter(self._bridge))


def documented_by(blocking: type) -> Callable[[C], C]:
    """Return a class decorator that copies the docstrings of the blocking methods, for `help()`."""

    def decorate(cls: C) -> C:
        for name, function in vars(cls).items():
            if callable(function) and not function.__doc__:
                function.__doc__ = getattr(blocking, name).__doc__
        return cls

    return decorate
