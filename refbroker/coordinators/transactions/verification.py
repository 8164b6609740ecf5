"""The check that partitions belong to a transaction before records are appended to them (KIP-890).

Without this check, a delayed batch could reopen a transaction after its markers were written, and READ_COMMITTED
readers would wait indefinitely. With transactions of version 2 the check adds the partitions, since clients do not send
AddPartitionsToTxn. Old clients do not know the error TRANSACTION_ABORTABLE and get INVALID_TXN_STATE instead.

Elsewhere: `refbroker.log.verification` keeps the state of a check in the log.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Protocol

from kclient.errors import (
    InvalidTxnStateError,
    KafkaError,
    TransactionAbortableError,
)
from refbroker.config import BrokerConfig
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.metadata.partitions import Partitions


class ClientSupport(enum.Enum):
    """The parts of KIP-890 that a client supports, by the version of its request."""

    NONE = "none"
    ABORTABLE_ERROR = "abortable error"
    TRANSACTIONS_V2 = "transactions of version 2"


class AddPartitionsToTxnManager(Protocol):
    """The interface to the transaction coordinator; in Kafka, the class of this name sends it requests."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartitionKey],
        *,
        add: bool,
    ) -> Mapping[TopicPartitionKey, KafkaError | None]:
        """Verify that partitions belong to a transaction.

        Parameters:
            add: whether to add missing partitions.

        Returns:
            The error of each partition, None for those in the transaction.
        """


class PartitionVerifier:
    """Verifies that partitions of this broker belong to a transaction.

    Parameters:
        config: the broker's settings.
        partitions: the partitions that the broker leads.
        transactions: the coordinator, which is the broker itself.
    """

    def __init__(self, config: BrokerConfig, partitions: Partitions, transactions: AddPartitionsToTxnManager) -> None:
        self._config = config
        self._partitions = partitions
        self._transactions = transactions

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        sequences: Mapping[TopicPartitionKey, int],
        support: ClientSupport,
    ) -> dict[TopicPartitionKey, KafkaError]:
        """Verify that partitions belong to a transaction; with transactions of version 2, add them.

        A partition that already has records of the transaction needs no verification. The result is valid until the
        caller yields to the event loop.

        Parameters:
            sequences: the first sequence to append to each partition; NO_SEQUENCE for batches of a coordinator, whose
                sequences are not checked.
            support: what the client supports.

        Returns:
            The errors of the partitions that must not be appended to.
        """
        adds = support is ClientSupport.TRANSACTIONS_V2
        if not adds and not self._config.boolean("transaction.partition.verification.enable"):
            return {}
        errors: dict[TopicPartitionKey, KafkaError] = {}
        asked: list[TopicPartitionKey] = []
        for (topic, number), sequence in sequences.items():
            try:
                log = self._partitions.find(topic, number).log
                if log.begin_verification(producer_id, producer_epoch, sequence, supports_epoch_bump=adds):
                    asked.append((topic, number))
            except KafkaError as error:
                errors[topic, number] = error
        if asked:
            answers = self._transactions.verify(transactional_id, producer_id, producer_epoch, asked, add=adds)
            errors.update((key, _as_understood(error, support)) for key, error in answers.items() if error is not None)
        return errors


def _as_understood(error: KafkaError, support: ClientSupport) -> KafkaError:
    if isinstance(error, TransactionAbortableError) and support is ClientSupport.NONE:
        return InvalidTxnStateError(error.message)
    return error
