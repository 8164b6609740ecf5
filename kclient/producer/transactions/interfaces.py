"""The interfaces of the transaction manager: the connections it uses, and the calls that wait for it."""

from __future__ import annotations

from typing import Protocol

from kclient.errors import KafkaError
from kclient.net.manager import Nodes
from kclient.producer.transactions.states import TransactionCall
from kclient.types import PreparedTransaction


class TransactionNodes(Nodes, Protocol):
    """The connections of a producer, with the finalized features of the cluster."""

    def feature_level(self, feature: str) -> int:
        """Return the finalized level of a feature; 0 if it has none."""


class PendingCall:
    """A call whose result is unknown, or was not returned yet.

    Attributes:
        call: the call.
        done: whether the result is known; `error` is why it failed.
        seen: whether the application has received the result; until then the same call returns it.
        is_decided: whether the transaction has ended as requested: later errors do not change that.
        prepared: what prepare_transaction returns.
    """

    def __init__(self, call: TransactionCall) -> None:
        self.call = call
        self.done = False
        self.error: KafkaError | None = None
        self.seen = False
        self.is_decided = False
        self.prepared: PreparedTransaction | None = None

    def end(self, error: KafkaError | None = None) -> None:
        """Set the result."""
        if not self.done:
            self.error = None if self.is_decided else error
            self.done = True
