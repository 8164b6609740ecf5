"""The broker's log: what Kafka keeps on disk, in Kafka's own files.

`LogManager` opens the data directories and has a `PartitionLog` for each partition; the format of each
file is explained in the module that writes it. Records are stored as they came over the wire.
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
