"""What the readers of files give: lines of named values, and what they found to be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

LARGEST_WHOLE = 64 << 20
"""The most bytes that are read at once of a file that is small by nature; what is larger is no such file."""


@dataclass(frozen=True)
class DumpOptions:
    """What is to be shown, in the words of Kafka's DumpLogSegments.

    Attributes:
        print_data_log: the records of segments with their keys and values, not only the batches.
        deep_iteration: the records, without their contents.
        decoder: what keys and values are: `text`, one of `decoders.DECODERS`, or None to go by the topic's name.
        skip_record_metadata: only the contents of records.
        max_bytes: read so much of a segment, in bytes; None for all of it.
        max_message_size: the largest batch that an index may point to, in bytes.
        index_sanity_check: only check indexes as the broker does when it starts.
        verify_index_only: compare indexes with their segment without showing them.
        as_json: one JSON object a line.
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
    """A number that may be missing, shown as Java shows it."""

    value: int | None

    @classmethod
    def of(cls, value: int) -> OptionalLong:
        """One that is missing when the number is negative."""
        return cls(value if value >= 0 else None)

    def __str__(self) -> str:
        return "OptionalLong.empty" if self.value is None else f"OptionalLong[{self.value}]"


@dataclass(slots=True)
class Entry:
    """What is shown in one line.

    Attributes:
        fields: names and values, in order.
        text: the line, where Kafka's does not consist of names and values.
    """

    fields: dict[str, Any]
    text: str | None = None


@dataclass
class Findings:
    """What is wrong in the files that were read, in Kafka's groups; and the damage that ended the reading of one.

    Attributes:
        index_mismatches: by file: the offset in an offset index, and that of the batch it points to.
        timestamp_mismatches: by file: a time index's timestamp, and that of the batch.
        out_of_order_timestamps: by file: a time index's timestamp, and the one before it.
        offsets_not_found: by file: a time index's offset, and the batch's that is there instead, -1 for none.
        non_consecutive: by file: an offset, and the one that follows it though it is not the next.
        damage: whether a file could not be read as what it is.
    """

    index_mismatches: dict[Path, dict[int, int]] = field(default_factory=dict)
    timestamp_mismatches: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    out_of_order_timestamps: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    offsets_not_found: dict[Path, list[tuple[int, int]]] = field(default_factory=dict)
    non_consecutive: dict[Path, dict[int, int]] = field(default_factory=dict)
    damage: bool = False

    @property
    def serious(self) -> bool:
        """Whether a file is wrong. Gaps between offsets are not: a compacted log has them."""
        backwards = any(
            next_offset <= offset for pairs in self.non_consecutive.values() for offset, next_offset in pairs.items()
        )
        mismatches = self.index_mismatches or self.timestamp_mismatches or self.out_of_order_timestamps
        return bool(self.damage or mismatches or self.offsets_not_found or backwards)

    def lines(self) -> Iterator[str]:
        """What Kafka's tool says about it at its end; offsets of an index from the last."""
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


class Damaged(ValueError):
    """A file is not what its name says, or ends where it should not; the text is for the user."""


Reader = Callable[[Path, DumpOptions, Findings], Iterator[Entry]]


def base_offset(path: Path) -> int:
    """The offset that the name of a segment's file begins with.

    Raises:
        Damaged: it begins with none.
    """
    stem = path.name.partition(".")[0]
    if not (stem.isascii() and stem.isdecimal() and int(stem) < 1 << 63):
        raise Damaged(f"the name does not begin with an offset: {path.name}")
    return int(stem)


def read_whole(path: Path) -> bytes:
    """The bytes of a file that is small by nature.

    Raises:
        Damaged: it is not small.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if size > LARGEST_WHOLE:
        raise Damaged(f"it has {size} bytes, which no such file has")
    return path.read_bytes()
