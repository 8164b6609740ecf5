"""The compiled twin: the names of `kclient.records.pure`, in C; ImportError if it was not built."""

from __future__ import annotations

from kclient.records._builder import BatchBuilder, murmur2  # type: ignore[import-not-found]
from kclient.records._columns import arrow_arrays  # type: ignore[import-not-found]
from kclient.records._cursor import RecordCursor  # type: ignore[import-not-found]
from kclient.records._records import ConsumerRecord, RecordChunk, chain_iter, decode_batch, read_batches  # type: ignore[import-not-found]
from kclient.records._rows import ArrowRows  # type: ignore[import-not-found]

__all__ = [
    "ArrowRows",
    "BatchBuilder",
    "ConsumerRecord",
    "RecordChunk",
    "RecordCursor",
    "arrow_arrays",
    "chain_iter",
    "decode_batch",
    "murmur2",
    "read_batches",
]
