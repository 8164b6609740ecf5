"""A session with ZooKeeper, by kazoo.

kazoo keeps the session in threads of its own and connects again after an interruption. When a session is over, which
takes `zookeeper.session.timeout.ms` without a connection, its ephemeral nodes are gone and the next connection begins
another session.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kclient.errors import ConfigError
from refbroker.zookeeper.tree import Change, Check, ConflictError, Create, Delete, Node, Operation, UnreachableError

logger = logging.getLogger(__name__)

MISSING = "zookeeper.connect needs the package kazoo: pip install 'kclient[zookeeper]'"


class ZooKeeperSession:
    """The nodes of a ZooKeeper. Implements `Tree`.

    Parameters:
        connect: the servers, as `HOST:PORT,HOST:PORT/FOLDER`.
        session_timeout_ms: how long a session outlives its connection, milliseconds.
        connection_timeout_ms: how long to wait for a connection, milliseconds.
        connected: called in a thread of kazoo's at each later connection.

    Raises:
        ConfigError: the package kazoo is not installed, or `connect` cannot be parsed.
        UnreachableError: no server answers in time.
    """

    def __init__(
        self, connect: str, session_timeout_ms: int, connection_timeout_ms: int, connected: Callable[[], None]
    ) -> None:
        try:
            self._kazoo: Any = importlib.import_module("kazoo.client")
            self._errors: Any = importlib.import_module("kazoo.exceptions")
        except ImportError as error:
            raise ConfigError(MISSING) from error
        self._connect = connect
        self._timeout = session_timeout_ms / 1000
        self._connected = connected
        servers, _, folder = connect.partition("/")
        self._folder = f"/{folder.strip('/')}" if folder.strip("/") else ""
        try:
            self._client = self._kazoo.KazooClient(hosts=servers, timeout=self._timeout, logger=logger)
        except ValueError as error:
            raise ConfigError(f"zookeeper.connect={connect}: {error}") from error
        try:
            self._client.start(connection_timeout_ms / 1000)
        except self._client.handler.timeout_exception as error:
            raise UnreachableError(
                f"no ZooKeeper answers at zookeeper.connect={connect} within {connection_timeout_ms} ms"
            ) from error
        self._client.add_listener(self._changed)
        if self._folder:
            with self._failures():
                self._client.ensure_path(self._folder)

    def _changed(self, state: str) -> None:
        if state == self._kazoo.KazooState.CONNECTED:
            self._connected()

    @property
    def session_id(self) -> int:
        """See Tree."""
        found = self._client.client_id
        if found is None:
            raise UnreachableError(f"the session with ZooKeeper at {self._connect} is over")
        return int(found[0])

    def read(self, path: str) -> Node | None:
        """See Tree."""
        with self._failures():
            try:
                value, status = self._client.get(self._folder + path)
            except self._errors.NoNodeError:
                return None
        return Node(value, status.version, status.ephemeralOwner)

    def children(self, path: str) -> list[str]:
        """See Tree."""
        with self._failures():
            try:
                return list(self._client.get_children(self._folder + path))
            except self._errors.NoNodeError:
                return []

    def apply(self, operations: Sequence[Operation]) -> None:
        """See Tree."""
        request = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, value, ephemeral):
                    request.create(self._folder + path, value, ephemeral=ephemeral)
                case Change(path, value, version):
                    request.set_data(self._folder + path, value, version)
                case Delete(path):
                    request.delete(self._folder + path)
                case Check(path, version):
                    request.check(self._folder + path, version)
        with self._failures():
            results = request.commit()
        for operation, result in zip(operations, results, strict=True):
            # The others have failed only because of this one.
            if isinstance(result, Exception) and not isinstance(
                result, self._errors.RolledBackError | self._errors.RuntimeInconsistency
            ):
                raise ConflictError(operation.path) from result

    def wait_until_gone(self, path: str) -> bool:
        """See Tree."""
        gone, whole = threading.Event(), self._folder + path
        with self._failures():
            if self._client.exists(whole, watch=lambda event: gone.set()) is None:
                return True
            # ZooKeeper looks for sessions that are over at intervals.
            gone.wait(2 * self._timeout)
            return self._client.exists(whole) is None

    def close(self) -> None:
        """See Tree."""
        self._client.stop()
        self._client.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Tell apart what ZooKeeper refuses and what did not reach it."""
        errors = self._errors
        try:
            yield
        except (errors.ConnectionLoss, errors.ConnectionClosedError, errors.SessionExpiredError) as error:
            raise UnreachableError(f"ZooKeeper at {self._connect} did not answer: {type(error).__name__}") from error
        except self._client.handler.timeout_exception as error:
            raise UnreachableError(f"ZooKeeper at {self._connect} did not answer in time") from error
