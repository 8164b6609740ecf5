"""The cost of a record in kclient.records, in nanoseconds: appending, taking, decoding, and conversion to Arrow.

    python benchmarks/micro_records.py [RECORDS] [VALUE_SIZE]

Both twins are measured where both are there (the pure one on fewer records); each figure is the
best of three. The process runs nothing else, so these are lower bounds for a real client.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from kclient.records import assign_offsets, pure, to_arrow

TIMESTAMP = 1_700_000_000_000
BATCH_BYTES = 1_000_000
RUNS = 3


def best(work: Callable[[], Any], count: int) -> float:
    """Return the best time of `work`, in nanoseconds per record."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) / count * 1e9


def build(twin: ModuleType, value: bytes, count: int, codec: str = "none") -> list[Any]:
    """Return batches of `count` records in total."""
    built = []
    builder = twin.BatchBuilder(codec, max_bytes=BATCH_BYTES)
    append = builder.append
    for _ in range(count):
        if append(TIMESTAMP, None, value) < 0:
            built.append(builder.build())
            builder = twin.BatchBuilder(codec, max_bytes=BATCH_BYTES)
            append = builder.append
            append(TIMESTAMP, None, value)
    built.append(builder.build())
    return built


def as_fetched(batches: list[Any]) -> bytes:
    """Return the batches with offsets, as from a broker."""
    data = bytearray()
    offset = 0
    for built in batches:
        stamped = bytearray(built)
        assign_offsets(stamped, offset, 1)
        offset += int.from_bytes(stamped[57:61], "big")
        data += stamped
    return bytes(data)


def read_in_chunks(twin: ModuleType, data: bytes) -> int:
    return read_all(twin.RecordCursor(data, "topic", 0, 0), 500)


def read_all(cursor: Any, size: int | None) -> int:
    total = 0
    while len(chunk := cursor.take(size)):
        for record in chunk:
            total += len(record.value)
    return total


def measure(twin: ModuleType, name: str, count: int, value: bytes) -> None:
    data = as_fetched(build(twin, value, count))

    def cursor() -> Any:
        return twin.RecordCursor(data, "topic", 0, 0)

    whole = cursor().take()
    rows: dict[str, Callable[[], Any]] = {
        "append, build": lambda: build(twin, value, count),
        "take (checksum, validation)": lambda: cursor().take(),
        "decode, value read": lambda: [None for record in whole if record.value is None],
        "take 500 and decode": lambda: read_all(cursor(), 500),
        "take all into a list": lambda: list(cursor().take()),
        "take all into Arrow": lambda: to_arrow([cursor().take()]),
        "values only into Arrow": lambda: to_arrow([cursor().take()], ["value"]),
    }
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        packed = as_fetched(build(twin, value, count, codec))
        rows |= {
            f"append, build, {codec}": partial(build, twin, value, count, codec),
            f"take 500 and decode, {codec}": partial(read_in_chunks, twin, packed),
        }
    for title, work in rows.items():
        print(f"{name:10}{title:32}{best(work, count):10.1f} ns")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 500_000
    value = bytes(range(32, 127)) * 1000
    value = value[: int(sys.argv[2]) if len(sys.argv) > 2 else 100]
    try:
        measure(importlib.import_module("kclient.records._compiled"), "compiled", count, value)
    except ImportError:
        print("compiled  not built")
    measure(pure, "pure", max(count // 20, 1000), value)


if __name__ == "__main__":
    main()
