"""Offsets that an application gives to be committed, by a consumer or in a transaction: checked alike for both."""

from __future__ import annotations

from collections.abc import Mapping

from kclient.types import OffsetAndMetadata, TopicPartition

GivenOffsets = Mapping[TopicPartition, OffsetAndMetadata | int] | Mapping[tuple[str, int], OffsetAndMetadata | int]
"""The next offset to read, by partition. Two types in one, since a Mapping of the one is none of the other."""


def checked_offsets(offsets: GivenOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as they are sent.

    Raises:
        TypeError, ValueError: they are no mapping, or a key or an offset is none.
    """
    if not isinstance(offsets, Mapping):
        raise TypeError(
            "offsets are given by partition, as next_offsets() of what poll() returned has them: "
            f"{{TopicPartition: int or OffsetAndMetadata}}, not {type(offsets).__name__}"
        )
    checked: dict[TopicPartition, OffsetAndMetadata] = {}
    for key, value in offsets.items():
        partition = TopicPartition(*key)
        offset = OffsetAndMetadata(value) if isinstance(value, int) else value
        if not isinstance(offset, OffsetAndMetadata):
            raise TypeError(f"an offset is an int or an OffsetAndMetadata, not {value!r} for {partition}")
        if offset.offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset.offset} for {partition}")
        checked[partition] = offset
    return checked
