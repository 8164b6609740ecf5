"""The pure twin: it documents the record format and works everywhere.

`kclient.records._compiled` has the same names. Hot paths differ in speed only; both share the rest (`batch`, `codecs`,
`legacy`, `control`).
"""

from __future__ import annotations

from kclient.records.pure.builder import BatchBuilder, murmur2
from kclient.records.pure.cursor import RecordChunk, RecordCursor, chain_iter, chunk_columns
from kclient.records.pure.record import ConsumerRecord, decode_batch, read_batches
from kclient.records.pure.rows import ArrowRows

__all__ = [
    "ArrowRows",
    "BatchBuilder",
    "ConsumerRecord",
    "RecordChunk",
    "RecordCursor",
    "chain_iter",
    "chunk_columns",
    "decode_batch",
    "murmur2",
    "read_batches",
]
