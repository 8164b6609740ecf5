"""ZooKeeper's nodes in memory, for the tests of the registry: versions, ephemeral nodes, and `multi`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refbroker.zookeeper.tree import (
    ANY_VERSION,
    Change,
    Check,
    ConflictError,
    Create,
    Delete,
    Node,
    Operation,
    UnreachableError,
)


class ZooKeeper:
    """The nodes, which all sessions share."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {"": Node(b"", 0, 0)}
        self.is_reachable = True
        self._sessions = 0

    def session(self) -> MemoryTree:
        self._sessions += 1
        return MemoryTree(self, self._sessions)

    def expire(self, session_id: int) -> None:
        """End a session as ZooKeeper does when its client is silent."""
        self.nodes = {path: node for path, node in self.nodes.items() if node.owner != session_id}


@dataclass
class MemoryTree:
    """One session. Implements `Tree`.

    Attributes:
        waits_for: what happens while the session waits until a node is gone; ends that session.
    """

    zookeeper: ZooKeeper
    session_id: int
    waits_for: int = 0

    def read(self, path: str) -> Node | None:
        return self._nodes().get(path)

    def children(self, path: str) -> list[str]:
        return [name.removeprefix(f"{path}/") for name in self._nodes() if name.rpartition("/")[0] == path and name]

    def apply(self, operations: Sequence[Operation]) -> None:
        nodes = dict(self._nodes())
        for operation in operations:
            self._apply(nodes, operation)
        self.zookeeper.nodes = nodes

    def _apply(self, nodes: dict[str, Node], operation: Operation) -> None:
        path = operation.path
        found = nodes.get(path)
        if isinstance(operation, Create):
            if found is not None or path.rpartition("/")[0] not in nodes:
                raise ConflictError(path)
            nodes[path] = Node(operation.value, 0, self.session_id if operation.ephemeral else 0)
            return
        if found is None:
            raise ConflictError(path)
        if isinstance(operation, Delete):
            if any(name.startswith(f"{path}/") for name in nodes):
                raise ConflictError(path)
            del nodes[path]
            return
        if operation.version not in (ANY_VERSION, found.version):
            raise ConflictError(path)
        if isinstance(operation, Change):
            nodes[path] = Node(operation.value, found.version + 1, found.owner)
        else:
            assert isinstance(operation, Check)

    def wait_until_gone(self, path: str) -> bool:
        self.zookeeper.expire(self.waits_for)
        return path not in self._nodes()

    def close(self) -> None:
        self.zookeeper.expire(self.session_id)

    def _nodes(self) -> dict[str, Node]:
        if not self.zookeeper.is_reachable:
            raise UnreachableError("ZooKeeper does not answer")
        return self.zookeeper.nodes
