"""The transactional producer (KIP-98, 360, 447, 588, 890): states, requests, the meaning of errors, and the calls."""

from __future__ import annotations

from kclient.producer.transactions.manager import TransactionManager
from kclient.producer.transactions.states import TransactionState

__all__ = ["TransactionManager", "TransactionState"]
