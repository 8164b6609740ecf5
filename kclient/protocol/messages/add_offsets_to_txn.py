"""Adds a consumer group's offsets to a transaction (KIP-98).

Sent to the transaction coordinator before TxnOffsetCommit, up to the first version of transactions;
the second has TxnOffsetCommit do it (KIP-890).
"""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import int16, int32, int64


@request(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest(Message):
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    group_id: str = ""


@response(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
