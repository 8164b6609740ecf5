"""WriteTxnMarkers (27), versions 1 and 2: ends transactions in the partitions of this broker (KIP-98).

Transaction coordinators send it, and administrators to abort a hanging transaction (KIP-664). Each partition has its
own result. Version 2 has the version of transactions, which determines the valid epochs of a marker. Markers of the
same producer are answered together. Elsewhere: the errors (`refbroker.coordinators.transactions.markers`).

Permissions: ALTER or CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

import asyncio

from kclient.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from refbroker.coordinators.transactions.markers import MarkerResults
from refbroker.handlers.context import Context
from refbroker.handlers.services import TransactionServices
from refbroker.log import TransactionMarker
from refbroker.log.checkpoints import TopicPartitionKey
from refbroker.runtime.error_codes import NONE, code_of
from refbroker.runtime.eventual import all_of, then
from refbroker.security.permissions import ALTER_CLUSTER, CLUSTER_ACTION

ProducerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult


def handle(
    context: Context[TransactionServices], request: WriteTxnMarkersRequest
) -> WriteTxnMarkersResponse | asyncio.Future[WriteTxnMarkersResponse]:
    """Carry out a WriteTxnMarkers request."""
    context.quota.exempt()
    access = context.access
    answers: list[MarkerResults | asyncio.Future[MarkerResults]] = []
    refusal = None if access.allows(ALTER_CLUSTER, filters=True) else access.refusal(CLUSTER_ACTION)
    for wanted in request.markers:
        marker = TransactionMarker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.coordinator_epoch,
            commit=wanted.transaction_result,
            transaction_version=wanted.transaction_version,
        )
        partitions = [(topic.name, number) for topic in wanted.topics for number in topic.partition_indexes]
        refused: MarkerResults = dict.fromkeys(partitions, refusal)
        answers.append(refused if refusal else context.broker.markers.write(marker, partitions))
    return then(all_of(answers), lambda results: _response(request, results))


def _response(request: WriteTxnMarkersRequest, answers: list[MarkerResults]) -> WriteTxnMarkersResponse:
    codes: dict[int, dict[TopicPartitionKey, int]] = {}
    for wanted, results in zip(request.markers, answers, strict=True):
        codes.setdefault(wanted.producer_id, {}).update(
            (key, NONE if error is None else code_of(error)) for key, error in results.items()
        )
    return WriteTxnMarkersResponse(markers=[_result(producer, found) for producer, found in codes.items() if found])


def _result(producer_id: int, codes: dict[TopicPartitionKey, int]) -> ProducerResult:
    topics: dict[str, TopicResult] = {}
    for (name, number), code in codes.items():
        topic = topics.setdefault(name, TopicResult(name=name))
        topic.partitions.append(PartitionResult(partition_index=number, error_code=code))
    return ProducerResult(producer_id=producer_id, topics=list(topics.values()))
