"""ZooKeeper's nodes as the registry uses them: what an operation is, and what can go wrong with it.

The registry is written against `Tree`. Elsewhere: the tree of a real ZooKeeper (`session`); tests have one in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kclient.errors import DisconnectedError

ANY_VERSION = -1


class Node(NamedTuple):
    """A node as it was read.

    Attributes:
        version: the number of changes of its value.
        owner: the id of the session that an ephemeral node belongs to, 0 for a persistent one.
    """

    value: bytes
    version: int
    owner: int


class Create(NamedTuple):
    """Creates a node whose folder exists."""

    path: str
    value: bytes = b""
    ephemeral: bool = False


class Change(NamedTuple):
    """Changes the value of a node."""

    path: str
    value: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Deletes a node without children."""

    path: str


class Check(NamedTuple):
    """Fails unless a node has a version."""

    path: str
    version: int


Operation = Create | Change | Delete | Check


class ConflictError(Exception):
    """Nothing was changed, because a node exists, does not exist, or has another version.

    Attributes:
        path: the node.
    """

    def __init__(self, path: str) -> None:
        super().__init__(f"the node {path} is not as expected")
        self.path = path


class UnreachableError(DisconnectedError, name="ZOOKEEPER_UNREACHABLE"):
    """The session is interrupted or over; whether the last operations took effect is unknown."""


class Tree(Protocol):
    """The nodes, in one session. All methods may block; they are called in one thread at a time.

    Every method raises `UnreachableError` if ZooKeeper does not answer.
    """

    @property
    def session_id(self) -> int:
        """The id of the session, the owner of its ephemeral nodes."""

    def read(self, path: str) -> Node | None:
        """Return a node, None if it does not exist."""

    def children(self, path: str) -> list[str]:
        """Return the names of the nodes in a folder, in any order; none if it does not exist."""

    def apply(self, operations: Sequence[Operation]) -> None:
        """Carry out all operations or none.

        Raises:
            ConflictError: one of them failed.
        """

    def wait_until_gone(self, path: str) -> bool:
        """Wait until a node does not exist, for as long as a session may outlive its client.

        Returns: Whether it is gone.
        """

    def close(self) -> None:
        """End the session: its ephemeral nodes are deleted. Raises nothing."""
