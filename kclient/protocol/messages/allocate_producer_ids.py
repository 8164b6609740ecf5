"""Reserves a block of producer ids for a broker (KIP-730)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import int16, int32, int64


@request(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest(Message):
    broker_id: int32 = 0
    broker_epoch: int64 = -1


@response(api_key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    producer_id_start: int64 = 0
    producer_id_len: int32 = 0
