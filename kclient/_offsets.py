"""Checks of what an application passes: partitions, and by partition offsets to commit and times to look up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.types import OffsetAndMetadata, TopicPartition

GivenOffsets = Mapping[TopicPartition, OffsetAndMetadata | int] | Mapping[tuple[str, int], OffsetAndMetadata | int]
"""The next offset to read, by partition. A union, because a Mapping with one key type is not a Mapping with the other.
"""

GivenTimes = Mapping[TopicPartition, int] | Mapping[tuple[str, int], int]
"""Milliseconds since the epoch, by partition; a union for the same reason."""


def checked_partition(given: object) -> TopicPartition:
    """Return a TopicPartition, also from a pair of topic and number.

    Raises:
        TypeError: this is something else, such as the name of a topic.
    """
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str) and isinstance(given[1], int):
        return TopicPartition(*given)
    raise TypeError(f"a partition is a TopicPartition or a pair (topic, number), not {given!r}")


def checked_partitions(given: Iterable[object]) -> list[TopicPartition]:
    """Return several partitions.

    Raises:
        TypeError: this is a single partition or topic, or has something that is no partition.
    """
    if isinstance(given, str | TopicPartition) or not isinstance(given, Iterable):
        raise TypeError(f"partitions are given as a list of TopicPartition, not {given!r}")
    return [checked_partition(each) for each in given]


def checked_offsets(offsets: GivenOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets as they are sent.

    Raises:
        TypeError, ValueError: this is not a mapping, or a key or an offset is invalid.
    """
    if not isinstance(offsets, Mapping):
        raise TypeError(
            "offsets are given by partition, as next_offsets() of what poll() returned has them: "
            f"{{TopicPartition: int or OffsetAndMetadata}}, not {type(offsets).__name__}"
        )
    checked: dict[TopicPartition, OffsetAndMetadata] = {}
    for key, value in offsets.items():
        partition = checked_partition(key)
        offset = OffsetAndMetadata(value) if isinstance(value, int) else value
        if not isinstance(offset, OffsetAndMetadata):
            raise TypeError(f"an offset is an int or an OffsetAndMetadata, not {value!r} for {partition}")
        if offset.offset < 0:
            raise ValueError(f"an offset is 0 or more, not {offset.offset} for {partition}")
        checked[partition] = offset
    return checked


def checked_times(times: GivenTimes) -> dict[TopicPartition, int]:
    """Return the times to look up; negative ones are refused, because they have special meanings in the protocol.

    Raises:
        TypeError, ValueError: this is not a mapping, or a key or a time is invalid.
    """
    if not isinstance(times, Mapping):
        raise TypeError(
            "times are given by partition, in milliseconds since the epoch: {TopicPartition: int}, "
            f"not {type(times).__name__}"
        )
    checked: dict[TopicPartition, int] = {}
    for key, time in times.items():
        partition = checked_partition(key)
        if not isinstance(time, int):
            raise TypeError(f"a time is an int, milliseconds since the epoch, not {time!r} for {partition}")
        if time < 0:
            raise ValueError(f"a time is in milliseconds since the epoch, not {time} for {partition}")
        checked[partition] = time
    return checked
