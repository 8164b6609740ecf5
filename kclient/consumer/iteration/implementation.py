"""Which twin of the iterators runs: the compiled one, if it is there and `kclient.records` uses its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient.records import IMPLEMENTATION

if TYPE_CHECKING:
    from kclient.consumer.iteration.iterator import AsyncRecordIterator, RecordIterator
else:
    try:
        if IMPLEMENTATION != "compiled":
            raise ImportError("the pure twins are in use")
        from kclient.consumer.iteration._iterator import AsyncRecordIterator, RecordIterator
    except ImportError:
        from kclient.consumer.iteration.iterator import AsyncRecordIterator, RecordIterator

__all__ = ["AsyncRecordIterator", "RecordIterator"]
