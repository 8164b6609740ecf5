"""The state of a partition's producers as it is kept in .snapshot files beside the log."""

from __future__ import annotations

from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import Struct, array, int16, int32, int64, uint32


@message(versions="1")
class ProducerSnapshot(Message):
    """The contents of a partition's .snapshot file: the producers and their last batches."""

    crc: uint32 = 0
    producer_entries: list[ProducerEntry] = array()

    class ProducerEntry(Struct):
        producer_id: int64 = 0
        epoch: int16 = 0
        last_sequence: int32 = 0
        last_offset: int64 = 0
        offset_delta: int32 = 0
        timestamp: int64 = 0
        coordinator_epoch: int32 = 0
        current_txn_first_offset: int64 = 0
