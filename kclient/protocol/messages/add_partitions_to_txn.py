"""Adds partitions to a transaction (KIP-98).

Sent by producers to the transaction coordinator up to version 3; from version 4 on by brokers, to
verify that a transaction is open (KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, int64, map_key, since, until


@request(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    transactions: Annotated[list[AddPartitionsToTxnTransaction], since(4)] = array()
    v3_and_below_transactional_id: Annotated[str, until(3)] = ""
    v3_and_below_producer_id: Annotated[int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[int16, until(3)] = 0
    v3_and_below_topics: Annotated[list[AddPartitionsToTxnTopic], until(3)] = array()

    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: Annotated[str, map_key] = ""
        producer_id: int64 = 0
        producer_epoch: int16 = 0
        verify_only: bool = False
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = array()

    class AddPartitionsToTxnTopic(Struct):
        name: Annotated[str, map_key] = ""
        partitions: list[int32] = array()


@response(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: Annotated[int16, since(4), ignorable] = 0
    results_by_transaction: Annotated[list[AddPartitionsToTxnResult], since(4)] = array()
    results_by_topic_v3_and_below: Annotated[list[AddPartitionsToTxnTopicResult], until(3)] = array()

    class AddPartitionsToTxnResult(Struct):
        transactional_id: Annotated[str, map_key] = ""
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = array()

    class AddPartitionsToTxnTopicResult(Struct):
        name: Annotated[str, map_key] = ""
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = array()

    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: Annotated[int32, map_key] = 0
        partition_error_code: int16 = 0
