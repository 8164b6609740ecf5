"""Clients that live as long as the process: Spark creates writers for each batch, but reuses processes.

The producer of a task is kept after its transaction is prepared; its next `init_transactions` is one request, without a
new connection. The driver's producer keeps its transactional id over batches, so that a decision is a single
transaction: as long as it is not fenced, no other driver has decided. Elsewhere: the use of these clients (`task`,
`driver`).
"""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kclient import Admin, Producer
from kclient.admin import ConfigResource
from kclient.errors import AdminError, InvalidTxnTimeoutError, KafkaError
from kclient.spark.admins import open_admin
from kclient.spark.errors import OptionError
from kclient.spark.exactly_once.settings import Settings
from kclient.spark.forks import forget_in_children

TIMEOUT = "transaction.timeout.ms"
MOST_IDLE = 8
"""The most idle producers of tasks and drivers; each has a thread and connections."""

DECISION_MS = 30_000
"""The timeout of the driver's transaction, in ms, after which that of a dead driver is aborted."""

ABORT_SECONDS = 5.0
"""How long closing a producer may take to abort its open transaction, in seconds."""

_Key = tuple[tuple[str, str], ...]


class Clients:
    """The clients of one process.

    Parameters:
        open_producer, open_admin: create one from options by Kafka's dotted names.
    """

    def __init__(
        self,
        open_producer: Callable[..., Producer] = Producer.from_properties,
        open_admin: Callable[[dict[str, str]], Admin] = open_admin,
    ) -> None:
        self._open_producer = open_producer
        self._open_admin = open_admin
        self._begin()
        forget_in_children(self._begin)

    def _begin(self) -> None:
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._admins: dict[_Key, Admin] = {}
        self._idle: OrderedDict[tuple[_Key, str], Producer] = OrderedDict()
        self._drivers: OrderedDict[tuple[_Key, str], Producer] = OrderedDict()
        self._runs: OrderedDict[tuple[_Key, str], str] = OrderedDict()
        self._timeouts: dict[_Key, int] = {}

    def admin(self, settings: Settings) -> Admin:
        """Return the admin client of the process for these options."""
        key = _key(settings)
        with self._lock:
            if key not in self._admins:
                self._admins[key] = self._open_admin(settings.client)
            return self._admins[key]

    @contextmanager
    def task(self, settings: Settings, transactional_id: str) -> Iterator[Producer]:
        """Lend a producer with the transactional id for one transaction, which is prepared at the end.

        If the caller fails, it is closed, which aborts its transaction.
        """
        key = (_key(settings), transactional_id)
        with self._lock:
            producer = self._idle.pop(key, None)
        if producer is None:
            producer = self._open_producer(
                settings.client, transactional_id=transactional_id, transaction_timeout_ms=self.timeout_ms(settings)
            )
        try:
            yield producer
        except BaseException as error:
            _discard(producer, error)
            raise
        with self._lock:
            self._idle[key] = producer
            tired = [self._idle.popitem(last=False)[1] for _ in range(len(self._idle) - MOST_IDLE)]
        for one in tired:
            one.close(0)

    def driver(self, settings: Settings) -> Producer:
        """Return the producer that decides for a query; a new one has fenced all earlier ones.

        The producers used longest ago are closed, because each batch write is a query that occurs once. None of them
        is in use, as a process decides for one query at a time.
        """
        key = (_key(settings), settings.driver_id)
        with self._lock:
            known = self._drivers.get(key)
            if known is not None:
                self._drivers.move_to_end(key)
                return known
            producer = self._open_producer(
                settings.client,
                transactional_id=settings.driver_id,
                transaction_timeout_ms=min(DECISION_MS, self.timeout_ms(settings)),
            )
            try:
                producer.init_transactions()
            except BaseException as error:
                _discard(producer, error)
                raise
            self._drivers[key] = producer
            tired = [self._drivers.popitem(last=False)[1] for _ in range(len(self._drivers) - MOST_IDLE)]
        for one in tired:
            _discard(one)
        return producer

    def forget_driver(self, settings: Settings) -> None:
        """Close the driver's producer, after it was fenced or failed."""
        with self._lock:
            producer = self._drivers.pop((_key(settings), settings.driver_id), None)
        if producer is not None:
            _discard(producer)

    def is_first(self, settings: Settings, run: str) -> bool:
        """Return whether this is the first batch of a run in this process."""
        key = (_key(settings), settings.group)
        with self._lock:
            known = self._runs.pop(key, None)
            self._runs[key] = run
            if len(self._runs) > MOST_IDLE:
                self._runs.popitem(last=False)
        return known != run

    def timeout_ms(self, settings: Settings) -> int:
        """Return the timeout of the tasks' transactions: the option, or the maximum that all brokers allow.

        Raises:
            OptionError: the maximum cannot be read from the brokers.
        """
        given = settings.client.get(TIMEOUT)
        if given is not None:
            return int(given)
        key = _key(settings)
        with self._lock:
            known = self._timeouts.get(key)
        if known is None:
            known = _longest_timeout(self.admin(settings))
            with self._lock:
                self._timeouts[key] = known
        return known

    def close(self) -> None:
        """Close all clients."""
        with self._lock:
            producers = [*self._idle.values(), *self._drivers.values()]
            admins = list(self._admins.values())
            self._forget()
        for producer in producers:
            _discard(producer)
        for admin in admins:
            admin.close()


def _key(settings: Settings) -> _Key:
    return tuple(sorted(settings.client.items()))


def _discard(producer: Producer, told: BaseException | None = None) -> None:
    """Close a producer after a failure; if its transaction cannot be aborted now, its timeout aborts it."""
    try:
        producer.close(ABORT_SECONDS if told is None or isinstance(told, Exception) else 0)
    except KafkaError as error:
        if told is not None:
            told.add_note(f"and its transaction may be open until its timeout: {error}")


def _longest_timeout(admin: Admin) -> int:
    brokers = [ConfigResource.broker(node) for node in admin.describe_cluster().brokers]
    try:
        found = admin.describe_configs(brokers)
        return min(int(entries["transaction.max.timeout.ms"].value or "") for entries in found.values())
    except (AdminError, KeyError, ValueError) as error:
        raise OptionError(
            f"cannot read transaction.max.timeout.ms of the brokers ({error}): allow DescribeConfigs on the cluster, "
            f"or set the option kafka.{TIMEOUT} to at most that value (900000 by default)"
        ) from None


def timeout_refused(settings: Settings, error: InvalidTxnTimeoutError) -> OptionError:
    """Return the error for a timeout that the brokers do not allow."""
    return OptionError(
        f"kafka.{TIMEOUT}={settings.client.get(TIMEOUT)} is more than the brokers' transaction.max.timeout.ms; without "
        f"the option the longest that they allow is taken ({error})"
    )


CLIENTS = Clients()
"""The clients of this process."""
atexit.register(CLIENTS.close)
