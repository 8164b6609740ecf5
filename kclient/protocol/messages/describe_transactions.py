"""Describes transactions by transactional id (KIP-664).

Sent to the coordinator of each transactional id.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, int64, map_key


@request(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    transactional_ids: list[str] = array()


@response(api_key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState] = array()

    class TransactionState(Struct):
        error_code: int16 = 0
        transactional_id: str = ""
        transaction_state: str = ""
        transaction_timeout_ms: int32 = 0
        transaction_start_time_ms: int64 = 0
        producer_id: int64 = 0
        producer_epoch: int16 = 0
        topics: list[DescribeTransactionsResponse.TopicData] = array()

    class TopicData(Struct):
        topic: Annotated[str, map_key] = ""
        partitions: list[int32] = array()
