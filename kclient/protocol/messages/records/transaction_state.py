"""The records of `__transaction_state`: the state of every transactional id.

A key begins with the type of the record, a value with its version (`kclient.protocol.log_records`).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import Struct, array, int8, int16, int32, int64, since, tagged


@message(api_key=0, versions="0")
class TransactionLogKey(Message):
    """Key: the state of a transactional id."""

    transactional_id: str = ""


@message(api_key=0, versions="0-1", flexible="1+")
class TransactionLogValue(Message):
    """Value: the state of a transactional id."""

    producer_id: int64 = 0
    previous_producer_id: Annotated[int64, since(1), tagged(0)] = -1
    next_producer_id: Annotated[int64, since(1), tagged(1)] = -1
    producer_epoch: int16 = 0
    next_producer_epoch: Annotated[int16, since(1), tagged(3)] = -1
    transaction_timeout_ms: int32 = 0
    transaction_status: int8 = 0
    transaction_partitions: list[PartitionsSchema] | None = array()
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    client_transaction_version: Annotated[int16, since(1), tagged(2)] = 0

    class PartitionsSchema(Struct):
        topic: str = ""
        partition_ids: list[int32] = array()
