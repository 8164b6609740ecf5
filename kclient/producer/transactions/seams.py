"""What the transaction manager shares with others: the connections, and the calls that wait for it."""

from __future__ import annotations

from typing import Protocol

from kclient.errors import KafkaError
from kclient.net.manager import Nodes
from kclient.producer.transactions.states import TransactionCall
from kclient.types import PreparedTransaction


class Cluster(Nodes, Protocol):
    """The connections, and what the brokers said of the cluster when they were made."""

    def feature_level(self, feature: str) -> int:
        """The finalized level of a feature; 0 if it has none."""


class PendingCall:
    """A call whose result is not known yet, or not looked at.

    Attributes:
        call: which.
        done: whether the result is known; `error` is why it failed.
        seen: whether the application has got the result; until then the same call asks for it again.
        is_decided: whether the transaction has ended as the call asked: what fails after that does not change it.
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
        """The result is known."""
        if not self.done:
            self.error = None if self.is_decided else error
            self.done = True
