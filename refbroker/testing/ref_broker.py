"""A broker for tests: in this process, in a thread of its own, up in a fraction of a second.

    with RefBroker(num_partitions=3) as kafka:
        producer = Producer(bootstrap_servers=kafka.bootstrap_servers)

Any client can use it, from this process or another. `async with` works as well and does not block the loop. The pytest
fixture `refbroker` is in `pytest_plugin`. `faults`, `clock` and `disk` let a test cause failures and control the time;
`RemoteControl` does the same for a broker in another process.

Not implemented: several brokers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio.to_thread

from kclient.errors import IllegalStateError
from kclient.security.oauth.tokens import OAuthToken, unsecured_token
from refbroker.broker import Broker
from refbroker.config import BrokerConfig
from refbroker.log import Files, PartitionLog
from refbroker.runtime.clock import Clock
from refbroker.settings.listeners import LOOPBACK, parse_listener
from refbroker.settings.values import parse_list
from refbroker.testing import hosts
from refbroker.testing.certificates import Certificates
from refbroker.testing.control.clock import ClockMethods, LocalClock
from refbroker.testing.control.elections import elect
from refbroker.testing.faults import Faults
from refbroker.testing.faults.injection import FaultInjection
from refbroker.testing.security import BrokerSecurity, add_acl

if TYPE_CHECKING:
    from refbroker.testing.simulated_disk import SimulatedDisk
    from refbroker.testing.unflushed import Losses

T = TypeVar("T")

INITIAL_DELAY = "group.initial.rebalance.delay.ms"


class RefBroker:
    """A broker for tests, which runs within a `with` block, or from `start` to `stop`.

    Parameters:
        data_dir: the directory of its files, which is kept; None for a temporary directory, which is removed when the
            broker is closed.
        port: the port to listen on; 0 picks a free one, which stays the same over restarts.
        settings: broker settings by Kafka's names.
        sasl: passwords by user: its listener has SASL with PLAIN and SCRAM, and `client_options` log in as the first.
        acls: whether it has an authorizer, so that clients may do only what ACLs allow (see `allow`). The first user of
            `sasl` may do everything; without `sasl`, anonymous clients may. `super_users` names others.
        tls: whether its listener has TLS, with throw-away certificates; `client_options` are what clients need then.
        durable: whether flushes wait for the disk; by default only with a `data_dir`.
        disk: a simulated disk, which can lose data, fail and fill up.
        options: further broker settings, with underscores for dots: `num_partitions=3`. Any value that is text in a
            properties file; True and False are fine. `group_initial_rebalance_delay_ms`, for which a new group waits
            for more members, is 0 unless it is set, as in Kafka's own server.properties.

    Attributes:
        faults: what goes wrong with requests; see `refbroker.testing.faults.FaultMethods`.
        clock: the time it goes by; see `refbroker.testing.control.clock.ClockMethods`.

    Raises:
        ConfigError: a setting that does not exist, or a value it cannot have.
    """

    def __init__(
        self,
        *,
        data_dir: Path | str | None = None,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        durable: bool | None = None,
        disk: SimulatedDisk | None = None,
        tls: bool = False,
        sasl: Mapping[str, str] | None = None,
        acls: bool = False,
        **options: object,
    ) -> None:
        self._settings = {**(settings or {}), **{name.replace("_", "."): _text(v) for name, v in options.items()}}
        self._security = BrokerSecurity(tls, sasl or {}, acls=acls)
        self._temporary = data_dir is None
        self._data_dir = Path(tempfile.mkdtemp(prefix="refbroker-")) if data_dir is None else Path(data_dir)
        self._disk = disk
        self._files = disk or Files(durable=not self._temporary if durable is None else durable)
        self._first_port = port
        self._ports: dict[str, int] = {}
        self._host = hosts.current()
        self._time = Clock(self._host.time_ms)
        self.faults = Faults()
        self.clock: ClockMethods = LocalClock(self._time, self)
        self._submitting = threading.Lock()
        """Held while a function is handed to the loop, and while it ends: a later one would never be answered."""
        self._process: hosts.Process | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._broker: Broker | None = None
        try:
            self._config()
        except BaseException:
            self._remove_files()
            raise

    def _config(self) -> BrokerConfig:
        own = f"{self._security.protocol}://{LOOPBACK}:{self._first_port}"
        given = list(map(parse_listener, parse_list(self._settings.get("listeners", own))))
        settings = {"log.dirs": str(self._data_dir), INITIAL_DELAY: "0"}
        settings |= {**self._security.settings(one.name for one in given), **self._settings}
        # The ports that were picked at the first start are kept.
        kept = [one if one.port else one._replace(port=self._ports.get(one.name, 0)) for one in given]
        config = BrokerConfig({**settings, "listeners": ",".join(map(str, kept))})
        config.check_runnable()
        self._listeners = config.listeners
        self._client_auth = {one.name: config.client_auth(one.name) for one in config.listeners.all}
        return config

    @property
    def data_dir(self) -> Path:
        """The directory of its files."""
        return self._data_dir

    @property
    def port(self) -> int:
        """The port of its first listener; 0 before the first start, unless one was given."""
        first = self._listeners.all[0]
        return self._ports.get(first.name, first.port)

    @property
    def bootstrap_servers(self) -> str:
        """The address of its first listener, for clients."""
        return self.address(self._listeners.advertised(self._ports)[0].name)

    @property
    def certificates(self) -> Certificates:
        """The authority of its certificates, which issues more of them for clients.

        Raises:
            IllegalStateError: it was not made with tls=True.
        """
        if self._security.certificates is None:
            raise IllegalStateError("the broker has no certificates; make it with RefBroker(tls=True)")
        return self._security.certificates

    @property
    def client_options(self) -> dict[str, Any]:
        """The options that a client needs to connect to its first listener: `Producer(**broker.client_options)`."""
        name = self._listeners.advertised(self._ports)[0].name
        asks = self._client_auth[name] in ("requested", "required")
        options = self._security.client_options(self._listeners.protocol(name), with_certificate=asks)
        return {"bootstrap_servers": self.bootstrap_servers, **options}

    def address(self, listener: str) -> str:
        """Return the address for the clients of a listener.

        Raises:
            IllegalStateError: it advertises no address of such a listener, or picks its port at the first start.
        """
        for name, host, port in self._listeners.advertised(self._ports):
            if name == listener:
                return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise IllegalStateError(f"the broker advertises no address of a listener {listener}")

    @property
    def is_running(self) -> bool:
        """Whether it runs: it was started, and has neither been stopped nor lost a disk that it needs."""
        broker = self._broker
        return self._process is not None and (broker is None or not broker.has_failed)

    @property
    def disk(self) -> SimulatedDisk:
        """Its simulated disk.

        Raises:
            IllegalStateError: it has no simulated disk.
        """
        if self._disk is None:
            raise IllegalStateError(
                "the broker writes to the real disk; make it with RefBroker(disk=SimulatedDisk()), or the fixture "
                "with @pytest.mark.refbroker(disk=SimulatedDisk())"
            )
        return self._disk

    # Start and stop

    def start(self) -> Self:
        """Start it, with its previous port and files; it serves when this returns.

        Raises:
            IllegalStateError: it is already running, or a failed disk has ended it; use `restart` for both.
            OSError: the port is in use.
            KafkaStorageError: the files are unusable.
        """
        if self._process is not None:
            state = "is already running" if self.is_running else "was ended by a disk that failed: `restart` it"
            raise IllegalStateError(f"the broker {state}")
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        process = self._process = self._host.start(lambda: self._serve(started))
        try:
            process.wait(started)
        except BaseException:
            process.join()
            self._process = self._loop = self._broker = None
            raise
        return self

    async def _serve(self, started: concurrent.futures.Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        try:
            self._broker = await Broker.start(
                self._config(),
                clock=self._time,
                files=self._files,
                rng=self._host.random(),
                interceptor=FaultInjection(self.faults),
                listeners=self._host.listeners,
            )
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that called start
            started.set_exception(error)
            return
        self._ports = dict(self._broker.ports)
        self._security.add_users(self._broker.parts)
        started.set_result(None)
        await self._ended.wait()

    def stop(self) -> None:
        """Stop it cleanly; do nothing if it does not run.

        Raises:
            KafkaStorageError: a log could not be closed.
        """
        self._end(lambda broker: broker.stop())

    def kill(self) -> None:
        """Stop it as a crash would: connections are closed, nothing is flushed or marked; `start` recovers."""
        self._end(lambda broker: broker.kill())

    def lose_power(self, seed: int) -> Losses:
        """Stop it like `kill`, and remove unflushed data from its simulated disk; `start` recovers.

        Parameters:
            seed: decides what the disk has kept; the same operations and seed leave the same files.

        Returns:
            What was lost.

        Raises:
            IllegalStateError: it has no simulated disk.
        """
        disk = self.disk
        self.kill()
        return disk.lose_unflushed(seed)

    def restart(self) -> None:
        """Stop it and start it again, with the same port and files; raise the errors of both."""
        self.stop()
        self.start()

    def _end(self, how: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
        with self._submitting:
            process, loop, broker = self._process, self._loop, self._broker
            if process is None or loop is None or broker is None:
                return
            ended = _submit(loop, how(broker))
        try:
            process.wait(ended)
        finally:
            with self._submitting:
                if self._loop is loop:
                    self._loop = self._broker = None
                    loop.call_soon_threadsafe(self._ended.set)
            process.join()
            self._process = None

    def close(self) -> None:
        """Stop it, and remove its files if they are temporary."""
        try:
            self.stop()
        finally:
            self._remove_files()

    def _remove_files(self) -> None:
        if self._temporary:
            shutil.rmtree(self._data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await anyio.to_thread.run_sync(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await anyio.to_thread.run_sync(self.close)

    # Inside

    def call(self, function: Callable[[Broker], T]) -> T:
        """Run a function on the broker's event loop, with the broker as its argument.

        Raises:
            IllegalStateError: the broker does not run.
        """

        async def run(broker: Broker) -> T:
            return function(broker)

        return self.wait_for(run)

    def wait_for(self, steps: Callable[[Broker], Coroutine[Any, Any, T]], timeout: float | None = None) -> T:
        """Run a coroutine function on the broker's event loop, with the broker as its argument, and return its result.

        Parameters:
            timeout: in seconds.

        Raises:
            IllegalStateError: the broker does not run.
            TimeoutError: it takes too long, and is cancelled.
        """

        async def run(broker: Broker) -> T:
            async with asyncio.timeout(timeout):
                return await steps(broker)

        with self._submitting:
            process = self._process
            if process is None or self._loop is None or self._broker is None:
                raise IllegalStateError("the broker does not run")
            found = _submit(self._loop, run(self._broker))
        try:
            return process.wait(found)
        except concurrent.futures.CancelledError:
            raise IllegalStateError("the broker was stopped meanwhile") from None

    def metrics(self) -> dict[str, Any]:
        """Return the broker's metrics: values by metric, and by label if a metric has labels.

        The names are those of its page for Prometheus. `metrics()["kafka_log_log_size"]["orders"]["0"]` is a number;
        over all topics the topic is "". A distribution of times is a dict of `count`, `sum` and `buckets`.

        Raises:
            IllegalStateError: the broker does not run.
        """
        from refbroker.metrics.exposition import as_dict

        return as_dict(self.wait_for(Broker.collect_metrics))

    def create_topic(self, name: str, partitions: int = 1, **configs: object) -> None:
        """Create a topic, without a client.

        Parameters:
            partitions: the number of partitions.
            configs: its settings, with underscores for dots: `retention_ms=1000`.

        Raises:
            TopicExistsError, InvalidTopicError, InvalidConfigurationError: it cannot be.
        """
        from refbroker.controller.topics import NewTopic, plan_topic

        settings: dict[str, str | None] = {key.replace("_", "."): _text(value) for key, value in configs.items()}

        def create(broker: Broker) -> None:
            controller = broker.parts.controller
            controller.append(plan_topic(controller, NewTopic(name, partitions, 1, configs=settings)).records)

        self.call(create)

    def allow(self, principal: str, operation: str, *, prefixed: bool = False, **resource: str) -> None:
        """Add an ACL that allows an operation: `broker.allow("User:anne", "READ", topic="orders")`.

        Parameters:
            principal: as "User:anne", or "User:*" for everybody.
            operation: READ, WRITE, DESCRIBE, ALL and so on, as `kclient.protocol.acls.AclOperation`.
            prefixed: whether it is for all names that begin with the given one.
            resource: one of `topic`, `group`, `transactional_id`, `cluster="kafka-cluster"`, `user="User:bob"` and
                `delegation_token`; "*" is for all names.

        Raises:
            IllegalStateError: the broker does not run, or has no authorizer.
            ConfigError: there is no such operation, or not one resource.
            InvalidRequestError: the broker refuses the ACL.
        """
        self.call(lambda broker: add_acl(broker.parts, principal, operation, resource, prefixed=prefixed, deny=False))

    def deny(self, principal: str, operation: str, *, prefixed: bool = False, **resource: str) -> None:
        """Add an ACL that denies an operation, whatever else is allowed; parameters and errors are those of `allow`."""
        self.call(lambda broker: add_acl(broker.parts, principal, operation, resource, prefixed=prefixed, deny=True))

    def oauth_token(self, user: str, *, lifetime: float = 3600.0) -> OAuthToken:
        """Return an unsecured token with which a client logs in by OAUTHBEARER, if the settings enable that.

        Parameters:
            user: who it is for.
            lifetime: seconds of the broker's clock until it expires.
        """
        now = self._time() / 1000
        return OAuthToken(unsecured_token({"sub": user, "iat": now, "exp": now + lifetime}))

    def elect(self, topic: str, partition: int = 0) -> int:
        """Elect the leader of a partition again, and return the leader epoch: clients have to request metadata.

        Raises:
            UnknownTopicOrPartitionError: the partition does not exist.
        """
        return self.call(lambda broker: elect(broker.parts, topic, partition))

    def log(self, topic: str, partition: int = 0) -> PartitionLog:
        """Return the log of a partition, to inspect offsets, size and segments. Read it while nothing is written.

        Raises:
            UnknownTopicOrPartitionError: the partition does not exist.
        """
        return self.call(lambda broker: broker.parts.partitions.find(topic, partition).log)


def _submit(loop: asyncio.AbstractEventLoop, steps: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    # In a context of its own: in the caller's, which may be trio's, anyio would not detect asyncio's loop.
    return contextvars.Context().run(asyncio.run_coroutine_threadsafe, steps, loop)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
