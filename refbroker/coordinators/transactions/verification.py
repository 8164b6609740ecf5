"""Asks a transaction's coordinator whether partitions are part of it, before anything is appended to them (KIP-890).

Without it a batch that is late could begin a transaction in a partition after its coordinator has ended it everywhere
it knew of; readers of committed records would wait for the end of that one for ever. Clients with transactions of
version 2 do not name the partitions beforehand: asking adds them. How much a client understands follows from the
version of its request, since the error that only asks it to abort is newer than the APIs.
`refbroker.log.verification` has what a log remembers meanwhile.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kclient.errors import (
    InvalidTxnStateError,
    KafkaError,
    TransactionAbortableError,
)
from refbroker.log.checkpoints import TopicPartitionKey

if TYPE_CHECKING:
    from refbroker.broker import Broker


class ClientSupport(enum.Enum):
    """What a client knows of KIP-890."""

    NONE = "none"
    ABORTABLE_ERROR = "abortable error"
    TRANSACTIONS_V2 = "transactions of version 2"


def verify_partitions(
    broker: Broker,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    sequences: Mapping[TopicPartitionKey, int],
    support: ClientSupport,
) -> dict[TopicPartitionKey, KafkaError]:
    """Confirm that partitions are part of a transaction, and add them to one of version 2.

    A partition that has records of the transaction already needs no confirmation. To those without an error batches may
    be appended until the event loop goes on.

    Parameters:
        sequences: the first sequence of what is to be appended to each; NO_SEQUENCE for a coordinator's batches, whose
            order is not checked.
        support: what the client knows.

    Returns:
        What is wrong, for those that may not be appended to.
    """
    adds = support is ClientSupport.TRANSACTIONS_V2
    if not adds and not broker.config.boolean("transaction.partition.verification.enable"):
        return {}
    errors: dict[TopicPartitionKey, KafkaError] = {}
    asked: list[TopicPartitionKey] = []
    for (topic, number), sequence in sequences.items():
        try:
            log = broker.partitions.find(topic, number).log
            if log.begin_verification(producer_id, producer_epoch, sequence, supports_epoch_bump=adds):
                asked.append((topic, number))
        except KafkaError as error:
            errors[topic, number] = error
    if asked:
        answers = broker.transactions.verify(transactional_id, producer_id, producer_epoch, asked, add=adds)
        errors.update((key, _as_understood(error, support)) for key, error in answers.items() if error is not None)
    return errors


def _as_understood(error: KafkaError, support: ClientSupport) -> KafkaError:
    if isinstance(error, TransactionAbortableError) and support is ClientSupport.NONE:
        return InvalidTxnStateError(error.message)
    return error
