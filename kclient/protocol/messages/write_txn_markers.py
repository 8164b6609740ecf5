"""Writes the markers of a finished transaction into its partitions (KIP-98).

Sent by the transaction coordinator to the leaders, or by an administrator to end a hanging
transaction (KIP-664).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int8, int16, int32, int64, since


@request(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersRequest(Message):
    markers: list[WritableTxnMarker] = array()

    class WritableTxnMarker(Struct):
        producer_id: int64 = 0
        producer_epoch: int16 = 0
        transaction_result: bool = False
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = array()
        coordinator_epoch: int32 = 0
        transaction_version: Annotated[int8, since(2), ignorable] = 0

    class WritableTxnMarkerTopic(Struct):
        name: str = ""
        partition_indexes: list[int32] = array()


@response(api_key=27, versions="1-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    markers: list[WritableTxnMarkerResult] = array()

    class WritableTxnMarkerResult(Struct):
        producer_id: int64 = 0
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = array()

    class WritableTxnMarkerTopicResult(Struct):
        name: str = ""
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = array()

    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
