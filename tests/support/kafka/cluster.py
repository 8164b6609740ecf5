"""A real Apache Kafka cluster on loopback, for tests: combined KRaft nodes, started, stopped and restarted one by one.

Elsewhere: the settings of a cluster whose clients log in (`tests.support.security`).
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import socket
import struct
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.kafka.jars import classpath, run_tool, unavailable_reason
from tests.support.patience import CHANGE, PROCESS

__all__ = ["KafkaCluster", "unavailable_reason"]

#: Metadata v0 for all topics: header v1 (api key 3, version 0, correlation id 1, no client id), an empty array.
METADATA_REQUEST = struct.pack(">hhihi", 3, 0, 1, -1, 0)
CONTROLLER = "CONTROLLER"
PLAINTEXT = "PLAINTEXT"
"""The listener that every node has, for the other nodes and for clients."""


_held = contextlib.ExitStack()
atexit.register(_held.close)


def free_ports(count: int) -> list[int]:
    """Reserve ports until the end of the run.

    A socket that is bound but does not listen holds each port, so that the system assigns it to nobody else. The caller
    can still bind it with SO_REUSEADDR, as servers do, also right after a server on it has ended.
    """
    ports = []
    for _ in range(count):
        holder = _held.enter_context(socket.socket())
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        ports.append(holder.getsockname()[1])
    return ports


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return data


def _live_brokers(port: int) -> int:
    """Return how many brokers the one on this port considers alive; 0 while it does not respond yet."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(METADATA_REQUEST)) + METADATA_REQUEST)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            _, brokers = struct.unpack_from(">ii", _receive(connection, size))
            return int(brokers)
    except OSError:
        return 0


class KafkaCluster:
    """Real Apache Kafka brokers as a context manager.

    Node ids count from 1. Ports are free ones and stay the same over a restart; so does the data.

    Args:
        nodes: how many brokers, each a controller as well.
        directory: where data, configuration and output go (``node1/out.log`` ...).
        config: further broker settings for every node, in Kafka's own names; they win over the ones made here.
        listeners: further listeners by name, each with its security protocol.
        client_listener: the listener whose addresses are the bootstrap servers.
        format_options: further options of kafka-storage format.
        voters_in_log: whether the first node is formatted with its voter in the metadata log (kraft.version 1), and the
            others as observers; else the voters are in the settings.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        directory: Path,
        config: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        client_listener: str = PLAINTEXT,
        format_options: Sequence[str] = (),
        voters_in_log: bool = False,
    ) -> None:
        self.directory = directory
        self.voters_in_log = voters_in_log
        self.node_ids = list(range(1, nodes + 1))
        self._listeners = {PLAINTEXT: PLAINTEXT, **(listeners or {})}
        self._client_listener = client_listener
        self._format_options = tuple(format_options)
        self._ports = {
            name: dict(zip(self.node_ids, free_ports(nodes), strict=True)) for name in (*self._listeners, CONTROLLER)
        }
        self._config = dict(config or {})
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        # Kafka accepts no id that looks like a command-line option.
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")

    @property
    def bootstrap_servers(self) -> str:
        """All nodes as ``host:port,host:port``, running or not."""
        return ",".join(self.address(node) for node in self.node_ids)

    @property
    def running(self) -> list[int]:
        """The ids of the nodes whose process runs."""
        return [node for node, process in self._processes.items() if process.poll() is None]

    def pid(self, node: int) -> int:
        """The process id of a running node."""
        return self._processes[node].pid

    def address(self, node: int = 1, listener: str | None = None) -> str:
        """The ``host:port`` of one node at a listener, by default that of the bootstrap servers."""
        return f"127.0.0.1:{self._ports[listener or self._client_listener][node]}"

    def data_directory(self, node: int = 1) -> Path:
        """The folder with the partitions of one node."""
        return self.directory / f"node{node}" / "data"

    def __enter__(self) -> Self:
        try:
            for node in self.node_ids:
                self._format(node)
            for node in self.node_ids:
                self._launch(node)
            self.wait_until_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, node: int) -> None:
        """Start a stopped node and wait until every running node serves and knows it.

        A node that has not run before begins with the data that are there, if any.
        """
        if node not in self.running:
            self._format(node)
            self._launch(node)
        self.wait_until_ready()

    def stop(self, node: int, *, kill: bool = False) -> None:
        """Stop one node: in order (SIGTERM: leaders move first), or with ``kill`` as a crash (SIGKILL)."""
        process = self._processes.pop(node)
        self._end([process], kill=kill)

    def restart(self, node: int, *, kill: bool = False) -> None:
        """Stop one node and start it again on the same port with the same data."""
        self.stop(node, kill=kill)
        self.start(node)

    def wait_until_ready(self) -> None:
        """Wait until each running node serves and sees all the others.

        Raises:
            AssertionError: a process ended, or the time was up; with the end of its output.
        """
        deadline = time.monotonic() + PROCESS
        for node in list(self._processes):
            while _live_brokers(self._ports[PLAINTEXT][node]) < len(self.running):
                process = self._processes[node]
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(f"Kafka node {node} does not serve:\n{self._output(node)}")
                time.sleep(0.1)

    def close(self) -> None:
        """Stop every node; data stays where it is."""
        atexit.unregister(self.close)
        processes = list(self._processes.values())
        self._processes.clear()
        # The last node of a quorum would wait long for the others, so a cluster is killed instead.
        self._end(processes, kill=len(processes) > 1)

    @staticmethod
    def _end(processes: list[subprocess.Popen[bytes]], *, kill: bool) -> None:
        for process in processes:
            process.kill() if kill else process.terminate()
        for process in processes:
            try:
                process.wait(CHANGE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _launch(self, node: int) -> None:
        atexit.unregister(self.close)
        atexit.register(self.close)
        folder = self.directory / f"node{node}"
        with open(folder / "out.log", "ab") as output:
            self._processes[node] = subprocess.Popen(
                ["java", "-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-cp", classpath(), "kafka.Kafka",
                 str(folder / "server.properties")],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                # Ctrl-C must reach only the tests, which stop their brokers themselves.
                start_new_session=True,
            )  # fmt: skip

    def _format(self, node: int) -> None:
        folder = self.directory / f"node{node}"
        folder.mkdir(parents=True, exist_ok=True)
        properties = folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings(node)))
        if not self.data_directory(node).exists():
            options = list(self._format_options)
            if self.voters_in_log:
                # The first node votes alone at first; the others are observers until they are added as voters.
                options.append("--standalone" if node == self.node_ids[0] else "--no-initial-controllers")
            done = run_tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(properties), *options)
            assert done.returncode == 0, done.stdout

    def _settings(self, node: int) -> Iterator[tuple[str, object]]:
        replicas = min(3, len(self.node_ids))
        min_isr = 2 if replicas > 1 else 1
        brokers = ",".join(f"{name}://{self.address(node, name)}" for name in self._listeners)
        protocols = {CONTROLLER: PLAINTEXT, **self._listeners}
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": node,
            "broker.rack": f"rack{node}",
            **self._quorum(),
            "controller.listener.names": CONTROLLER,
            "listeners": f"{brokers},{CONTROLLER}://{self.address(node, CONTROLLER)}",
            "advertised.listeners": brokers,
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "log.dirs": self.data_directory(node),
            "num.partitions": 1,
            "default.replication.factor": replicas,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "true",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            # Tests write records of any age, which retention must not delete.
            "log.initial.task.delay.ms": 3_600_000,
            # A stopped node is detected within seconds, so that tests of failover are fast.
            "broker.session.timeout.ms": 4000,
            "broker.heartbeat.interval.ms": 500,
            "controlled.shutdown.max.retries": 1,
            # Where a topic allows unclean leaders, one is elected at once, not at the next check every five minutes.
            "unclean.leader.election.interval.ms": 500,
        }
        for prefix in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            settings[f"{prefix}.replication.factor"] = replicas
            settings[f"{prefix}.num.partitions"] = 4
        for prefix in ("transaction.state.log", "share.coordinator.state.topic"):
            settings[f"{prefix}.min.isr"] = min_isr
        if len(self.node_ids) > 1:
            # The controllers connect to each other without credentials.
            settings["super.users"] = "User:ANONYMOUS"
        return iter({**settings, **self._config}.items())

    def _quorum(self) -> dict[str, object]:
        if self.voters_in_log:
            return {"controller.quorum.bootstrap.servers": self.address(1, CONTROLLER)}
        voters = ",".join(f"{node}@{self.address(node, CONTROLLER)}" for node in self.node_ids)
        return {"controller.quorum.voters": voters}

    def _output(self, node: int) -> str:
        lines = (self.directory / f"node{node}" / "out.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])
