"""Commits or aborts a transaction (KIP-98).

Sent to the transaction coordinator. From version 5 on the answer carries the producer's next epoch
(KIP-890).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ignorable, int16, int32, int64, since


@request(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest(Message):
    transactional_id: str = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    committed: bool = False


@response(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id: Annotated[int64, since(5), ignorable] = -1
    producer_epoch: Annotated[int16, since(5), ignorable] = -1
