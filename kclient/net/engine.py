"""The engine of a client: one network thread, and the interface to it for the rest of the client.

The thread is a daemon, so that it never keeps the interpreter from ending. An `atexit` handler closes the engines that
are still open and waits at most a second for each; the handlers of clients run before it and may still flush. In a
forked child every engine is unusable and raises ForkError. Elsewhere: what is sent (managers), and how (`driver`,
`nodes`).
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING, Any

from kclient._misuse import check_callback
from kclient.config import ClientConfig, ConsumerConfig, ProducerConfig
from kclient.errors import ClosedError, ForkError, KafkaError
from kclient.metrics import Metrics, MetricsHook, MetricValues
from kclient.net.bootstrap import parse_servers
from kclient.net.connectivity import ConnectivityMonitor
from kclient.net.driver import Driver
from kclient.net.handshake import find_versions
from kclient.net.manager import NEVER, Manager, Request
from kclient.net.metadata import MetadataManager
from kclient.net.metrics_hooks import MetricsHooks
from kclient.net.nodes import ClusterNodes
from kclient.net.runtime import Thread, current
from kclient.net.transport import Transport
from kclient.net.waiting import LoopBridge
from kclient.protocol import Message
from kclient.types import Connectivity

if TYPE_CHECKING:
    from kclient.net.logins import ClientLogin
    from kclient.net.tls import TlsConnector

_log = logging.getLogger(__name__)

EXIT_SECONDS = 5.0
"""Seconds that the end of the interpreter waits for producers, and for consumers, that were not closed."""

_EXIT_TIMEOUT = 1.0
"""Seconds that the end of the interpreter waits for each engine that was not closed."""


class Engine:
    """The engine of one client.

    Parameters:
        config: the client's options.
        metrics: where to count; by default metrics of its own.
        clock: seconds; by default that of the runtime.
        random: for jitter and choices; by default the runtime's.
        transport: the network; by default the runtime's.
        name: the prefix of its threads' names.
        run_soon: runs callbacks of the application, in order; by default in the loop of the bridge, or in a thread of
            their own.
        bridge: the bridge into the event loop of an async client.

    Attributes:
        label: the client's name in log lines and warnings.
        runtime: the one that was current when the engine was made.
        clock: seconds; the clock of the whole client.
        transport: the network.
        run_soon: runs a callback of the application where it expects them. Any thread.

    Raises:
        ConfigError: `bootstrap_servers` is malformed, or the certificates cannot be used.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        metrics: Metrics | None = None,
        clock: Callable[[], float] | None = None,
        random: random.Random | None = None,
        transport: Transport | None = None,
        name: str = "kclient",
        run_soon: Callable[[Callable[[], None]], None] | None = None,
        bridge: LoopBridge | None = None,
    ) -> None:
        servers = parse_servers(config.bootstrap_servers, config.protocol)
        # Before anything that must be closed: it may fail.
        tls = _tls_connector(config)
        self.name = name
        self.label = config.label
        self.runtime = runtime = current()
        self.clock = clock = clock or runtime.monotonic
        self.metrics = metrics if metrics is not None else Metrics(clock=clock)
        self._random = random if random is not None else runtime.random()
        self.transport = transport or runtime.transport(config)
        self._driver = Driver(self.transport, clock)
        self._callbacks = runtime.worker(f"{name}-events")
        self.run_soon = run_soon or (self._callbacks.submit if bridge is None else bridge.post)
        self._login = None if not config.uses_sasl else self._make_login(config, bridge)
        self._connectivity = ConnectivityMonitor(config, self.metrics, clock, self.run_soon)
        self.nodes = self._driver.nodes = ClusterNodes(
            config,
            servers,
            self.transport,
            metrics=self.metrics,
            connectivity=self._connectivity,
            clock=clock,
            random=self._random,
            defer=self._driver.defer,
            tls=tls,
            steps=(find_versions,) if self._login is None else self._login.steps,
        )
        self.metadata = MetadataManager(
            config,
            self.nodes,
            random=self._random,
            wakeup=self._driver.wakeup,
            auto_create=_may_create_topics(config),
        )
        self.nodes.on_unreachable = self.metadata.request_update
        self._metrics_hooks = MetricsHooks(runtime.worker(f"{name}-metrics"))
        self._driver.add(self.metadata)
        self._driver.add(self._metrics_hooks)
        if self._login is not None:
            self._driver.add(self._login.thread)
        self.wakeup = self._driver.wakeup
        self._thread: Thread | None = None
        self._stopping = False
        self._finished = False
        self._unusable: Callable[[], KafkaError] | None = None
        self._on_failure: list[Callable[[KafkaError], None]] = []
        self._closing = threading.Lock()
        self._pid = os.getpid()
        self._count_gil_waits()
        _engines.add(self)

    def _make_login(self, config: ClientConfig, bridge: LoopBridge | None) -> ClientLogin:
        # Not at the top: a client without SASL does not need it.
        from kclient.net.logins import ClientLogin

        return ClientLogin(
            config,
            self.runtime,
            self.name,
            submit=self.submit,
            clock=self.clock,
            rng=self._random,
            bridge=bridge,
        )

    # -- for the parts of a client

    def add(self, manager: Manager) -> None:
        """Poll a manager; call before `start`, or on the network thread."""
        self._driver.add(manager)

    def remove(self, manager: Manager) -> None:
        """Stop polling a manager; on the network thread."""
        self._driver.remove(manager)

    def on_failure(self, callback: Callable[[KafkaError], None]) -> None:
        """Call a function with the fatal error if the network thread fails; its last act, on that thread."""
        self._on_failure.append(callback)

    def submit(self, function: Callable[[], None]) -> None:
        """Run a function on the network thread soon. Any thread.

        After the end of that thread it runs at once, and requests that it sends fail.
        """
        self._driver.submit(function)
        if self._finished:
            self._driver.run_all_submitted()

    def send(self, request: Request) -> None:
        """Send a request outside of `poll`; on the network thread."""
        self._driver.send(request)

    def call(
        self,
        node: int,
        request_type: type[Message],
        build: Callable[[int], Message],
        *,
        timeout: float | None = None,
        minimum_version: int | None = None,
        maximum_version: int | None = None,
    ) -> Future[Any]:
        """Send one request and return a future of its response. Any thread.

        Parameters:
            node: the broker's id, or ANY_NODE.
            request_type, build, minimum_version, maximum_version: see `Request`.
            timeout: seconds; None is request_timeout_ms.
        """
        future: Future[Any] = Future()

        def answered(response: Any, now: float) -> None:
            if not future.cancelled():
                _settle(lambda: future.set_result(response))

        def failed(error: KafkaError, now: float) -> None:
            if not future.cancelled():
                _settle(lambda: future.set_exception(error))

        request = Request(
            node,
            request_type,
            build,
            answered,
            failed,
            timeout=timeout,
            minimum_version=minimum_version,
            maximum_version=maximum_version,
        )
        self.submit(lambda: self.send(request))
        return future

    def add_metrics_hook(
        self, hook: MetricsHook, interval: float, snapshot: Callable[[], MetricValues] | None = None
    ) -> None:
        """Call a function with the metrics at an interval. Any thread.

        Parameters:
            hook: see `Producer.add_metrics_hook`.
            interval: seconds.
            snapshot: returns the metrics; by default those of the engine.

        Raises:
            TypeError: the hook is not a plain function.
            ValueError: the interval is not positive.
            ClosedError: the client was closed.
        """
        check_callback("hook", hook)
        if not interval > 0:
            raise ValueError(f"interval is a number of seconds above 0, not {interval!r}")
        self.check_usable()
        values = self.metrics.snapshot if snapshot is None else snapshot
        self.submit(lambda: self._metrics_hooks.add(hook, interval, values, self.clock()))

    def connectivity(self) -> Connectivity:
        """Return whether any broker is reachable, and the errors of those that are not. Any thread."""
        return self._connectivity.snapshot(self.nodes.connection_errors())

    @property
    def is_unreachable(self) -> bool:
        """Whether no broker is reachable. Any thread."""
        return self._connectivity.is_unreachable

    # -- life

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._stopping

    def start(self) -> None:
        """Start the network thread."""
        self.check_usable()
        self._thread = self.runtime.start(self, f"{self.name}-network")

    def check_usable(self) -> None:
        """Raise the error that makes the client unusable, if any.

        Raises:
            ForkError: this is a forked child of the process that made the client.
            ClosedError: the client was closed.
            KafkaError: the network thread failed; the cause is attached.
        """
        if self._unusable is not None:
            raise self._unusable()

    def refuse_calls(self) -> None:
        """Let `check_usable` raise ClosedError from now on, while the network thread continues. Any thread."""
        if self._unusable is None:
            self._unusable = lambda: ClosedError(f"the client {self.name!r} is closed")

    def close(self, timeout: float) -> None:
        """Stop the network thread and close the connections; requests in flight fail with ClosedError.

        Functions submitted before still run. The call returns within the timeout, whatever the network does.

        Parameters:
            timeout: seconds; 0 waits for nothing.
        """
        if self._pid != os.getpid():
            return
        with self._closing:
            first = not self._stopping
            self._stopping = True
        if first:
            self.refuse_calls()
        thread = self._thread
        if thread is None:
            if first:
                self._finish(self._closed_error())
            return
        self.wakeup()
        if thread.is_current:
            return
        thread.join(max(0.0, timeout))
        if timeout > 0 and thread.is_alive():
            _log.warning("%s: the network thread did not stop within %g s", self.name, timeout)

    @property
    def wants_turn(self) -> bool:
        """Whether another turn was requested since the last one; for simulations."""
        return self._driver.wants_turn

    def run_turn(self, longest: float) -> float:
        """Make one turn of the network thread in the caller's thread; for simulations, which start no thread.

        Parameters:
            longest: the maximum wait in seconds.

        Returns:
            Seconds until the next turn is due, if nothing happens before.
        """
        return self._driver.turn(longest)

    def step(self, longest: float = NEVER) -> float | None:
        """Make one turn, as `runtime.Steps` says; the last step ends the engine."""
        failure: BaseException | None = None
        if not self._stopping:
            try:
                return self._driver.turn(longest)
            except BaseException as raised:  # noqa: BLE001 - raised from the client's next call
                failure = raised
        if not self._finished:
            self._finish(self._closed_error() if failure is None else self._fatal(failure))
        return None

    def _fatal(self, failure: BaseException) -> KafkaError:
        """Make the client unusable after an unexpected error on the network thread."""
        _log.critical("%s: the network thread failed; the client is unusable", self.name, exc_info=failure)
        text = f"the network thread of {self.name!r} failed: {failure!r}; this is a bug; create a new client"

        def make() -> KafkaError:
            error = KafkaError(text)
            error.fatal = True
            error.__cause__ = failure
            return error

        self._unusable = make
        return make()

    def _finish(self, error: KafkaError) -> None:
        """Fail all requests and close the connections."""
        steps: list[Callable[[], None]] = []
        if not isinstance(error, ClosedError):
            steps += [lambda callback=callback: callback(error) for callback in self._on_failure]  # type: ignore[misc]
        steps += [self._driver.run_submitted, lambda: self.nodes.close(error, self.clock())]
        steps += [self.transport.close, self._metrics_hooks.close, lambda: self._callbacks.close(0.0)]
        if self._login is not None:
            steps.append(self._login.thread.close)
        for step in steps:
            try:
                step()
            except Exception:  # noqa: BLE001 - the other steps must still run
                _log.exception("%s: an error while closing", self.name)
        self._finished = True
        try:
            self._driver.run_all_submitted()
        except Exception:  # noqa: BLE001 - nobody is left to raise it to
            _log.exception("%s: an error while closing", self.name)

    def _closed_error(self) -> ClosedError:
        return ClosedError(f"the client {self.name!r} was closed before the broker responded")

    def _forked(self) -> None:
        """Make the engine unusable in a forked child, which has no network thread."""
        pid = self._pid
        self._unusable = lambda: ForkError(
            f"the client {self.name!r} was made in process {pid}, and cannot be used in its forked child "
            f"{os.getpid()}; create a client in each process"
        )

    def _count_gil_waits(self) -> None:
        poller = getattr(self.transport, "poller", None)
        if poller is not None:
            self.metrics.gauge("network_thread_gil_waits_total", lambda: poller.gil_waits)
            self.metrics.gauge("network_thread_gil_wait_seconds_total", lambda: poller.gil_wait_seconds)
            self.metrics.gauge("network_thread_gil_wait_seconds_max", lambda: poller.gil_wait_max)


_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


def _close_all() -> None:
    for engine in list(_engines):
        if not engine.closed:
            engine.close(_EXIT_TIMEOUT)


def _mark_forked() -> None:
    for engine in list(_engines):
        engine._forked()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)


def _tls_connector(config: ClientConfig) -> TlsConnector | None:
    if not config.uses_tls:
        return None
    # Not at the top: a client without TLS does not need the module ssl.
    from kclient.net.tls import TlsConnector

    return TlsConnector(config)


def _may_create_topics(config: ClientConfig) -> bool:
    """Return whether a metadata request may create topics: for producers yes (the broker decides), for admins no."""
    if isinstance(config, ConsumerConfig):
        return config.allow_auto_create_topics
    return isinstance(config, ProducerConfig)


def _settle(settle: Callable[[], None]) -> None:
    try:
        settle()
    except InvalidStateError:  # its owner cancelled it in between
        return
