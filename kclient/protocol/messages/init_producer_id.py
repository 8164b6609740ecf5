"""Gives a producer its id and epoch (KIP-98).

With a transactional id it goes to the transaction coordinator, which finishes what an earlier
producer of that id left open and fences it. Version 3 bumps an epoch after an error (KIP-360), 6 is
for two-phase commit (KIP-939).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ignorable, int16, int32, int64, since


@request(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest(Message):
    transactional_id: str | None = ""
    transaction_timeout_ms: int32 = 0
    producer_id: Annotated[int64, since(3)] = -1
    producer_epoch: Annotated[int16, since(3)] = -1
    enable_2pc: Annotated[bool, since(6)] = False
    keep_prepared_txn: Annotated[bool, since(6)] = False


@response(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse(Message):
    throttle_time_ms: Annotated[int32, ignorable] = 0
    error_code: int16 = 0
    producer_id: int64 = -1
    producer_epoch: int16 = 0
    ongoing_txn_producer_id: Annotated[int64, since(6)] = -1
    ongoing_txn_producer_epoch: Annotated[int16, since(6)] = -1
