"""The partition logs of the broker, in the file formats of Kafka.

`LogManager` opens the data directories and holds a `PartitionLog` for each partition. The module that writes a file
documents its format. Record batches are stored in the format of the wire.
"""

from __future__ import annotations

from refbroker.log.appending import AppendResult
from refbroker.log.config import LogConfig
from refbroker.log.file_range import FetchSlice, FileRange, Isolation, OffsetAndTimestamp
from refbroker.log.files import Files
from refbroker.log.flush import Flush
from refbroker.log.log_dir import LogDirectory
from refbroker.log.manager import LogManager
from refbroker.log.markers import TransactionMarker
from refbroker.log.partition_log import PartitionLog
from refbroker.log.validation import Origin, RecordError, RejectedRecordsError, RejectedTimestampsError

__all__ = [
    "AppendResult",
    "FetchSlice",
    "FileRange",
    "Files",
    "Flush",
    "Isolation",
    "LogConfig",
    "LogDirectory",
    "LogManager",
    "OffsetAndTimestamp",
    "Origin",
    "PartitionLog",
    "RecordError",
    "RejectedRecordsError",
    "RejectedTimestampsError",
    "TransactionMarker",
]
