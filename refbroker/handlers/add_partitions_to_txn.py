"""AddPartitionsToTxn (24), versions 0 to 5: adds partitions to transactions, or verifies that they belong to them.

Up to version 3, a producer adds partitions to its transaction, which begins with the first one. From version 4 on
(KIP-890), brokers send it, for several transactions at once, to verify partitions (`verify_only`) or to add them. If a
partition does not exist, nothing is added, and the others get OPERATION_NOT_ATTEMPTED. A fenced producer gets
PRODUCER_FENCED, before version 2 INVALID_PRODUCER_EPOCH.

Permissions: up to version 3 WRITE on the transactional id, and on each topic that is not internal; from version 4 on
CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

import asyncio

from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from refbroker.coordinators.transactions.coordinator import Answers
from refbroker.coordinators.transactions.metadata import FIRST_WITH_EPOCH_BUMP
from refbroker.handlers.answers import INTERNAL_TOPICS, transaction_code
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.runtime.error_codes import NONE, code_of
from refbroker.runtime.eventual import all_of, then
from refbroker.security.authorizer import Access
from refbroker.security.permissions import CLUSTER_ACTION, WRITE_TOPIC, WRITE_TRANSACTIONAL_ID

FIRST_WITH_PRODUCER_FENCED = 2
FIRST_OF_BROKERS = 4

TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult


def handle(
    context: Context[TransactionServices], request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | asyncio.Future[AddPartitionsToTxnResponse]:
    """Carry out an AddPartitionsToTxn request."""
    transactions, access = context.broker.transactions, context.access
    if context.version < FIRST_OF_BROKERS:
        partitions = _partitions(request.v3_and_below_topics)
        refusal = access.refusal(WRITE_TRANSACTIONAL_ID, request.v3_and_below_transactional_id)
        answers: Answers | asyncio.Future[Answers] = (
            dict.fromkeys(partitions, refusal)
            if refusal is not None
            else transactions.add_or_verify(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                partitions,
                verify_only=False,
                client_version=0,
                refused=_refused_topics(access, request.v3_and_below_topics),
            )
        )
        return then(
            answers, lambda found: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(context, found))
        )
    refusal = access.refusal(CLUSTER_ACTION)
    if refusal is not None:
        return AddPartitionsToTxnResponse(error_code=code_of(refusal))
    results = [_add_or_verify(context, one) for one in request.transactions]
    return then(all_of(results), lambda found: AddPartitionsToTxnResponse(results_by_transaction=found))


def _add_or_verify(
    context: Context[TransactionServices], one: AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
) -> Result | asyncio.Future[Result]:
    """Carry out the part of a request that concerns one transaction."""
    answers = context.broker.transactions.add_or_verify(
        one.transactional_id,
        one.producer_id,
        one.producer_epoch,
        _partitions(one.topics),
        verify_only=one.verify_only,
        client_version=FIRST_WITH_EPOCH_BUMP,
    )
    return then(
        answers,
        lambda found: Result(transactional_id=one.transactional_id, topic_results=_results(context, found)),
    )


def _refused_topics(access: Access, topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> set[str]:
    """Return the topics that the client may not write to; nobody may write to internal ones."""
    return {
        topic.name for topic in topics if topic.name in INTERNAL_TOPICS or not access.allows(WRITE_TOPIC, topic.name)
    }


def _partitions(topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartitionKey]:
    return [(topic.name, number) for topic in topics for number in topic.partitions]


def _results(context: Context[TransactionServices], answers: Answers) -> list[TopicResult]:
    knows_fenced = context.version >= FIRST_WITH_PRODUCER_FENCED
    topics: dict[str, TopicResult] = {}
    for (topic, number), error in answers.items():
        code = NONE if error is None else transaction_code(error, knows_fenced=knows_fenced)
        result = topics.setdefault(topic, TopicResult(name=topic))
        result.results_by_partition.append(PartitionResult(partition_index=number, partition_error_code=code))
    return list(topics.values())
