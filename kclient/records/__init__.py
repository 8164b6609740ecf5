"""Record batches: writing and reading format 2, reading formats 1 and 0.

There are two implementations with the same names: `pure` documents the format and works everywhere, the compiled twin
does the same in C. `IMPLEMENTATION` is the one in use, "compiled" or "pure" (`kclient._twins`). Elsewhere: sockets,
clocks and protocol messages, which are in the layers above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient._twins import IMPLEMENTATION, load
from kclient.records.arrow import to_arrow
from kclient.records.batch import BatchHeader, RecordBatch, assign_offsets, batch_headers, restamp
from kclient.records.control import ABORT, COMMIT, ControlRecord, control_batch, parse_control_record
from kclient.records.rows import RowColumns, arrow_pieces, row_arguments

if TYPE_CHECKING:
    from kclient.records.pure import (
        ArrowRows,
        BatchBuilder,
        ConsumerRecord,
        RecordChunk,
        RecordCursor,
        chain_iter,
        murmur2,
        read_batches,
    )
else:
    ArrowRows, BatchBuilder, ConsumerRecord, RecordChunk, RecordCursor, chain_iter, murmur2, read_batches = load(
        (
            "ArrowRows",
            "BatchBuilder",
            "ConsumerRecord",
            "RecordChunk",
            "RecordCursor",
            "chain_iter",
            "murmur2",
            "read_batches",
        ),
        compiled="kclient.records._compiled",
        pure=("kclient.records.pure",),
    )

__all__ = [
    "ABORT",
    "COMMIT",
    "IMPLEMENTATION",
    "ArrowRows",
    "BatchBuilder",
    "BatchHeader",
    "ConsumerRecord",
    "ControlRecord",
    "RecordBatch",
    "RecordChunk",
    "RecordCursor",
    "RowColumns",
    "arrow_pieces",
    "assign_offsets",
    "batch_headers",
    "chain_iter",
    "control_batch",
    "murmur2",
    "parse_control_record",
    "read_batches",
    "restamp",
    "row_arguments",
    "to_arrow",
]
