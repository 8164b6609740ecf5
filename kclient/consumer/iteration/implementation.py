"""The choice between the compiled and the pure iterators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kclient._twins import load

if TYPE_CHECKING:
    from kclient.consumer.iteration.iterator import AsyncRecordIterator, RecordIterator

__all__ = ["AsyncRecordIterator", "RecordIterator"]

if not TYPE_CHECKING:
    AsyncRecordIterator, RecordIterator = load(
        __all__,
        compiled="kclient.consumer.iteration._iterator",
        pure=("kclient.consumer.iteration.iterator",),
    )
