"""The results of the file readers: entries, which are lines of named values, and findings, which are errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

MAX_WHOLE_FILE_BYTES = 64 << 20
"""The limit in bytes for files that are read whole. No valid checkpoint, snapshot or properties file is larger."""


@dataclass(frozen=True)
class DumpOptions:
    """What to print; the names are those of Kafka's DumpLogSegments.

    Attributes:
        print_data_log: print the records of segments with keys and values, not only the batches.
        deep_iteration: print the records without keys and values.
        decoder: a key of `decoders.DECODERS`, or None to choose by the topic's name.
        skip_record_metadata: print only the keys and values of records.
        max_bytes: the number of bytes of a segment to read; None for all of it.
        max_message_size: the largest batch that an index may point to, in bytes.
        index_sanity_check: only run the checks of indexes that the broker runs when it starts.
        verify_index_only: compare indexes with their segment without printing them.
        as_json: print one JSON object per line.
    """

    print_data_log: bool = False
    deep_iteration: bool = False
    decoder: str | None = None
    skip_record_metadata: bool = False
    max_bytes: int | None = None
    max_message_size: int = 5 << 20
    index_sanity_check: bool = False
    verify_index_only: bool = False
    as_json: bool = False


class OptionalLong(NamedTuple):
    """A number that may be missing, printed as Java's OptionalLong."""

    value: int | None

    @classmethod
    def of(cls, value: int) -> OptionalLong:
        """Return an OptionalLong that is empty if the number is negative."""
        return cls(value if value >= 0 else None)

    def __str__(self) -> str:
        return "OptionalLong.empty" if self.value is None else f"OptionalLong[{self.value}]"


@dataclass(slots=True)
class Entry:
    """One line of output.

    Attributes:
        fields: names and values, in order.
        text: the whole line, where Kafka's format is not names and values; else None.
    """

    fields: dict[str, Any]
    text: str | None = None


@dataclass
class Findings:
    """The errors in the files that were read, grouped as Kafka's tool groups them.

    Attributes:
        index_mismatches: by file: the offset in an offset index, and the offset of the batch that it points to.
        timestamp_mismatches: by file: the timestamp in a time index, and the timestamp of the batch.
        out_of_order_timestamps: by file: the timestamp in a time index, and the one before it.
        offsets_not_found: by file: the offset in a time index, and the offset of the next batch, -1 if none follows.
        non_consecutive: by file: an offset, and the next offset in the file if it is not one higher.
        damage: whether a file could not be read to its end.
    """

    index_mismatches: dict[Path, dict[int, int]] = field(default_factory=dict)
    timestamp_mismatches: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    out_of_order_timestamps: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    offsets_not_found: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    non_consecutive: dict[Path, dict[int, int]] = field(default_factory=dict)
    damage: bool = False

    @property
    def serious(self) -> bool:
        """Whether a file is damaged or inconsistent. Gaps between offsets are neither: compaction leaves them."""
        backwards = any(
            next_offset <= offset for pairs in self.non_consecutive.values() for offset, next_offset in pairs.items()
        )
        mismatches = self.index_mismatches or self.timestamp_mismatches or self.out_of_order_timestamps
        return bool(self.damage or mismatches or self.offsets_not_found or backwards)

    def lines(self) -> Iterator[str]:
        """Yield the lines that Kafka's tool prints at its end; mismatches of an offset index come last offset first."""
        for path, mismatches in self.index_mismatches.items():
            yield f"Mismatches in :{path}"
            for offset in sorted(mismatches, reverse=True):
                yield f"  Index offset: {offset}, log offset: {mismatches[offset]}"
        groups = (
            ("Found timestamp mismatch in :", "  Index timestamp: {}, log timestamp: {}", self.timestamp_mismatches),
            (
                "Found out of order timestamp in :",
                "  Index timestamp: {}, Previously indexed timestamp: {}",
                self.out_of_order_timestamps,
            ),
            (
                "The following indexed offsets are not found in :",
                "Indexed offset: {}, found log offset: {}",
                self.offsets_not_found,
            ),
        )
        for title, line, found in groups:
            for path, pairs in found.items():
                yield f"{title}{path}"
                yield from (line.format(*pair) for pair in pairs)
        for path, following in self.non_consecutive.items():
            yield f"Non-consecutive offsets in {path}"
            yield from (f"  {offset} is followed by {following[offset]}" for offset in sorted(following))


class DamagedFileError(ValueError):
    """The contents of a file do not match its name, or the file is truncated."""


Reader = Callable[[Path, DumpOptions, Findings], Iterator[Entry]]


def base_offset(path: Path) -> int:
    """Return the offset that the name of a segment's file begins with.

    Raises:
        DamagedFileError: the name does not begin with an offset.
    """
    stem = path.name.partition(".")[0]
    if not (stem.isascii() and stem.isdecimal() and int(stem) < 1 << 63):
        raise DamagedFileError(f"the file name {path.name} does not begin with an offset")
    return int(stem)


def read_whole(path: Path) -> bytes:
    """Return the bytes of a file, up to `MAX_WHOLE_FILE_BYTES`.

    Raises:
        DamagedFileError: the file is larger.
        OSError: the file cannot be read.
    """
    size = path.stat().st_size
    if size > MAX_WHOLE_FILE_BYTES:
        raise DamagedFileError(
            f"the file has {size} bytes, more than the {MAX_WHOLE_FILE_BYTES} that are possible for its kind"
        )
    return path.read_bytes()
