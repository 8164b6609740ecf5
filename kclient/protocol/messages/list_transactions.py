"""Lists the transactional ids a broker coordinates (KIP-664)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int16, int32, int64, since


@request(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Message):
    state_filters: list[str] = array()
    producer_id_filters: list[int64] = array()
    duration_filter: Annotated[int64, since(1)] = -1
    transactional_id_pattern: Annotated[str | None, since(2)] = None


@response(api_key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[str] = array()
    transaction_states: list[TransactionState] = array()

    class TransactionState(Struct):
        transactional_id: str = ""
        producer_id: int64 = 0
        transaction_state: str = ""
