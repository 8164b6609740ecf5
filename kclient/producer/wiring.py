"""The wiring of the parts that send a producer's batches; each is complete when it is made."""

from __future__ import annotations

import random as random_numbers
from collections.abc import Callable
from typing import NamedTuple

from kclient.config import ProducerConfig
from kclient.errors import KafkaError
from kclient.net.backoff import retry_backoff
from kclient.producer.accumulator import Accumulator
from kclient.producer.batch import ProducerBatch, Queue
from kclient.producer.collator import Collator
from kclient.producer.exchange import ProduceExchange
from kclient.producer.failure import ProducerFailure
from kclient.producer.idempotence import Identity
from kclient.producer.load import PartitionLoad
from kclient.producer.metrics import ProducerMetrics
from kclient.producer.producer_id import ProducerIdRequester
from kclient.producer.sender import Sender
from kclient.producer.settlement import Metadata, Settlement
from kclient.producer.transactions import TransactionManager
from kclient.producer.transactions.interfaces import TransactionNodes
from kclient.producer.unsettled import UnsettledBatches


class SenderParts(NamedTuple):
    """The parts that send the batches of one producer.

    Attributes:
        sender: the manager to poll.
        identity: the producer id, and the sequence of every partition.
        unsettled: the batches that are not settled.
        settlement: decides about their results.
        load: the choices of the sticky partitioners.
        transactions: None without a transactional_id.
    """

    sender: Sender
    identity: Identity
    unsettled: UnsettledBatches
    settlement: Settlement
    load: PartitionLoad
    transactions: TransactionManager | None


def wire_sender(
    config: ProducerConfig,
    accumulator: Accumulator,
    nodes: TransactionNodes,
    metadata: Metadata,
    *,
    new_batch: Callable[[Queue, float, float, int], ProducerBatch],
    on_fatal: Callable[[KafkaError], None],
    on_change: Callable[[], None],
    on_open: Callable[[bool], None],
    metrics: ProducerMetrics,
    random: random_numbers.Random,
) -> SenderParts:
    """Return the parts that send the batches of a producer.

    Parameters:
        new_batch: makes an empty batch for a queue, with creation, deadline and size limit (see `replacing`).
        on_fatal: called with the fatal error.
        on_change: called when calls that wait for a transaction should check again.
        on_open: called with whether records may be sent from now on.
        random: for jitter.
    """
    identity = Identity(config.idempotent, config.transactional_id is not None)
    unsettled = UnsettledBatches(accumulator)
    failure = ProducerFailure(identity, on_fatal)
    transactions = None
    if config.transactional_id is not None:
        transactions = TransactionManager(
            config,
            nodes,
            identity,
            all_settled=unsettled.is_empty,
            on_change=on_change,
            on_open=on_open,
            on_fatal=failure.stop,
            random=random,
        )
    backoff = retry_backoff(config, random)
    settlement = Settlement(
        config,
        accumulator,
        unsettled,
        identity,
        metadata,
        nodes,
        metrics,
        backoff,
        transactions,
        new_batch=new_batch,
        on_fatal=failure.stop,
    )
    collator = Collator(config, accumulator, identity, metadata)
    load = PartitionLoad(config, accumulator, metadata)
    sender = Sender(
        config,
        accumulator,
        nodes,
        metadata,
        identity=identity,
        id_requester=ProducerIdRequester(identity, backoff, failure.stop),
        unsettled=unsettled,
        collator=collator,
        exchange=ProduceExchange(config, unsettled, identity, metadata, metrics, collator, settlement, transactions),
        settlement=settlement,
        load=load,
        failure=failure,
        transactions=transactions,
    )
    return SenderParts(sender, identity, unsettled, settlement, load, transactions)
