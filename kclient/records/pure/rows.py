"""The rows of an Arrow record batch as records to append, through Python objects."""

from __future__ import annotations

from typing import Any

from kclient.records.batch import HEADER_OVERHEAD, header_name_error

__all__ = ["ArrowRows"]


class ArrowRows:
    """The rows of one record batch; `kclient.records.rows.row_arguments` returns its arguments.

    Parameters:
        first: the position of its first row in all data that is sent.
        length: the number of rows.
        names: the topics; the first is that of all rows, unless `topics` has each row's index.
        value, key: binary columns, or None.
        headers: lists of headers, and the names and values that they are lists of, or None.
        partitions, timestamps: int32 and int64 columns, the latter in milliseconds, or None.
    """

    def __init__(
        self,
        *,
        first: int,
        length: int,
        names: list[str],
        topics: Any = None,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partitions: Any = None,
        timestamps: Any = None,
    ) -> None:
        self.first = first
        self.names = names
        self._length = length
        self._topics = topics and topics.to_pylist()
        self._values = _bytes(value)
        self._keys = _bytes(key)
        self._partitions = partitions and partitions.to_pylist()
        self._timestamps = timestamps and timestamps.to_pylist()
        self._headers: list[tuple[tuple[str | None, bytes | None], ...]] | None = None
        if headers is not None:
            lists, header_names, header_values = headers
            pairs = list(zip(header_names.to_pylist(), header_values.to_pylist(), strict=True))
            offsets = lists.offsets.to_pylist()
            self._headers = [
                tuple(pairs[start:end]) if valid else ()
                for start, end, valid in zip(offsets, offsets[1:], lists.is_valid().to_pylist(), strict=False)
            ]

    def __len__(self) -> int:
        return self._length

    def record(self, row: int) -> tuple[Any, ...]:
        """Return a row as the arguments of `send`: topic, value, key, headers, partition, timestamp."""
        return (
            self.names[self._topics[row] if self._topics else 0],
            self._values and self._values[row],
            self._keys and self._keys[row],
            self._headers[row] if self._headers else (),
            self._partitions and self._partitions[row],
            self._timestamps and self._timestamps[row],
        )

    def largest(self) -> tuple[int, int]:
        """Return the row with the largest key, value and headers, and the maximum of its size in bytes.

        Raises:
            ValueError: a header has no name.
        """
        found = (0, -1)
        for row in range(self._length):
            _, value, key, headers, _, _ = self.record(row)
            size = len(value or b"") + len(key or b"")
            for name, data in headers:
                if name is None:
                    raise header_name_error(self.first + row)
                size += HEADER_OVERHEAD + len(name.encode()) + len(data or b"")
            if size > found[1]:
                found = (row, size)
        return found


def _bytes(column: Any) -> list[bytes | None] | None:
    """Return a column's values; text as UTF-8."""
    if column is None:
        return None
    return [item.encode() if isinstance(item, str) else item for item in column.to_pylist()]
