"""The check that partitions belong to a transaction before records are appended to them (KIP-890).

Without this check, a delayed batch could reopen a transaction after its markers were written, and READ_COMMITTED
readers would wait indefinitely. With transactions of version 2 the check adds the partitions, since clients do not send
AddPartitionsToTxn. Old clients do not know the error TRANSACTION_ABORTABLE and get INVALID_TXN_STATE instead.

The coordinator may be another broker, and answers when the addition is replicated. So an answer may come when the next
transaction has begun, and counts only together with the guard of its question.

Elsewhere: `refbroker.log.verification` keeps the state of a check in the log, and has the guards.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kclient.errors import (
    InvalidTxnStateError,
    KafkaError,
    TransactionAbortableError,
)
from refbroker.config import BrokerConfig
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.log.verification import VerificationState, Verified
from refbroker.metadata.partitions import Partitions
from refbroker.runtime.eventual import then


class ClientSupport(enum.Enum):
    """The parts of KIP-890 that a client supports, by the version of its request."""

    NONE = "none"
    ABORTABLE_ERROR = "abortable error"
    TRANSACTIONS_V2 = "transactions of version 2"


class Verification(NamedTuple):
    """The result of a verification.

    Attributes:
        errors: the partitions that must not be appended to.
        guards: the guards of the partitions that the coordinator was asked about.
        is_required: whether other partitions must have records of the transaction already.
    """

    errors: Mapping[TopicPartitionKey, KafkaError]
    guards: Mapping[TopicPartitionKey, VerificationState]
    is_required: bool = True

    def of(self, partition: TopicPartitionKey) -> Verified:
        """Return why records may be appended to a partition; see `refbroker.log.verification`."""
        return self.guards.get(partition, not self.is_required)


NOTHING_TO_VERIFY = Verification({}, {})
"""The result for records that belong to no transaction."""

_Answers = dict[TopicPartitionKey, KafkaError | None]


class AddPartitionsToTxnManager(Protocol):
    """The interface to the transaction coordinators; Kafka's class of this name sends each broker one request."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartitionKey],
        *,
        add: bool,
    ) -> _Answers | asyncio.Future[_Answers]:
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
        transactions: asks the coordinator.
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
    ) -> Verification | asyncio.Future[Verification]:
        """Verify that partitions belong to a transaction; with transactions of version 2, add them.

        A partition that already has records of the transaction needs no verification.

        Parameters:
            sequences: the first sequence to append to each partition; NO_SEQUENCE for batches of a coordinator, whose
                sequences are not checked.
            support: what the client supports.
        """
        adds = support is ClientSupport.TRANSACTIONS_V2
        if not adds and not self._config.boolean("transaction.partition.verification.enable"):
            return Verification({}, {}, is_required=False)
        errors: dict[TopicPartitionKey, KafkaError] = {}
        guards: dict[TopicPartitionKey, VerificationState] = {}
        for (topic, number), sequence in sequences.items():
            try:
                log = self._partitions.find(topic, number).log
                guard = log.begin_verification(producer_id, producer_epoch, sequence, supports_epoch_bump=adds)
                if guard is not None:
                    guards[topic, number] = guard
            except KafkaError as error:
                errors[topic, number] = error
        if not guards:
            return Verification(errors, guards)

        def verified(answers: _Answers) -> Verification:
            errors.update((key, _as_understood(error, support)) for key, error in answers.items() if error is not None)
            return Verification(errors, guards)

        return then(
            self._transactions.verify(transactional_id, producer_id, producer_epoch, list(guards), add=adds), verified
        )


def _as_understood(error: KafkaError, support: ClientSupport) -> KafkaError:
    if isinstance(error, TransactionAbortableError) and support is ClientSupport.NONE:
        return InvalidTxnStateError(error.message)
    return error
