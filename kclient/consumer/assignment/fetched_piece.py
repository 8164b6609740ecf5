"""One partition's part of a Fetch response, or the error of the fetch.

Elsewhere: where pieces wait (`fetch_buffer`), and how they are decoded (`fetching.collector`).
"""

from __future__ import annotations

from typing import Any

from kclient.errors import KafkaError


class ResponseMemory:
    """The memory behind the pieces of one response."""

    __slots__ = ("pieces", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.pieces = 0


class FetchedPiece:
    """The records of one partition in one response, or the error of the fetch.

    `offset` is where the fetch started; `end_offset` and `end_epoch` follow its last complete batch, by the batch
    headers alone.
    """

    __slots__ = ("aborted", "cursor", "data", "end_epoch", "end_offset", "error", "memory", "offset", "size")

    def __init__(
        self,
        offset: int,
        data: memoryview | bytes,
        *,
        end_offset: int,
        end_epoch: int = -1,
        aborted: tuple[tuple[int, int], ...] = (),
        memory: ResponseMemory | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self.offset = offset
        self.data = data
        self.size = len(data)
        self.end_offset = end_offset
        self.end_epoch = end_epoch
        self.aborted = aborted
        self.memory = memory or ResponseMemory(self.size)
        self.error = error
        self.cursor: Any = None


def error_piece(offset: int, error: KafkaError) -> FetchedPiece:
    """Return a piece that raises an error when it is reached."""
    return FetchedPiece(offset, b"", end_offset=offset, error=error)
