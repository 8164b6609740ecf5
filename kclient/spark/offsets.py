"""The start and end of a read: as users write it, as Spark stores it, and as offsets.

Users write `earliest`, `latest`, `committed`, timestamps, or JSON by topic and partition, as for Spark's own connector:
`{"orders": {"0": 23, "1": -2}}`, with -2 for the earliest and -1 for the latest offset. Spark stores the offsets of a
stream in the same form, without -1 and -2. Elsewhere: the partitions to read (`ranges`), and the division of ranges
(`planning`).
"""

from __future__ import annotations

import enum
import json
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kclient.spark.errors import DataLossError, Lost, OptionError, SourceError
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient import Consumer

_log = logging.getLogger(__name__)

EARLIEST = -2
LATEST = -1

Offsets = dict[TopicPartition, int]
"""The next offset to read, by partition."""


class Kind(enum.Enum):
    """The form of a bound."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    OFFSETS = "offsets"
    TIMES = "times"


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The start or end of a read.

    Attributes:
        kind: the form.
        option: the name of the option, for messages.
        values: for OFFSETS and TIMES by topic and partition: offsets, or milliseconds since the epoch.
        time: for TIMES, a timestamp for all partitions instead of `values`.
        latest_if_none: for TIMES, whether a partition without a record that recent is read from its end; otherwise it
            is an error.
    """

    kind: Kind
    option: str
    values: dict[str, dict[int, int]] | None = None
    time: int | None = None
    latest_if_none: bool = False

    def special(self) -> set[int]:
        """Return which of EARLIEST and LATEST it contains."""
        if self.kind is Kind.EARLIEST:
            return {EARLIEST}
        if self.kind is Kind.LATEST:
            return {LATEST}
        if self.kind is not Kind.OFFSETS or self.values is None:
            return set()
        return {value for by_partition in self.values.values() for value in by_partition.values() if value < 0}


class Range(NamedTuple):
    """The offsets of a partition from `start` to `end`, without `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets, at least 0."""
        return max(0, self.end - self.start)


def parse_bound(option: str, text: str) -> Bound:
    """Parse startingOffsets or endingOffsets.

    Raises:
        OptionError: the value is invalid.
    """
    if text.strip().startswith("{"):
        return Bound(kind=Kind.OFFSETS, option=option, values=parse_by_partition(option, text, least=EARLIEST))
    try:
        kind = Kind(text.strip().lower())
    except ValueError:
        kind = Kind.OFFSETS
    if kind in (Kind.OFFSETS, Kind.TIMES):
        raise OptionError(
            f'{option} must be earliest, latest, committed or JSON such as {{"topic": {{"0": 23}}}}, not {text!r}'
        )
    return Bound(kind=kind, option=option)


def parse_by_partition(option: str, text: str, *, least: int = 0) -> dict[str, dict[int, int]]:
    """Parse JSON with a number for each partition of each topic.

    Raises:
        OptionError: it has another form, or a number is below `least`.
    """
    try:
        return _by_partition(json.loads(text), least)
    except (ValueError, AttributeError, TypeError):
        example, meaning = (23, "numbers from 0, -2 for the earliest offset or -1 for the latest")
        if least == 0:
            example, meaning = (1_700_000_000_000, "milliseconds since the epoch")
        raise OptionError(
            f'{option} must be JSON such as {{"topic": {{"0": {example}}}}}, with {meaning}; not {text!r}'
        ) from None


def _by_partition(found: Any, least: int) -> dict[str, dict[int, int]]:
    parsed: dict[str, dict[int, int]] = {}
    for topic, partitions in found.items():
        parsed[topic] = {}
        for partition, number in partitions.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < least or int(partition) < 0:
                raise ValueError(number)
            parsed[topic][int(partition)] = number
    return parsed


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return offsets in the form of Spark's checkpoints; topics and partitions in order."""
    written: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        written.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return written


def from_json(written: Mapping[str, Mapping[str, int]]) -> Offsets:
    """Return the offsets from the result of `to_json`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in written.items()
        for partition, offset in partitions.items()
    }


def resolve(consumer: Consumer, bound: Bound, partitions: Iterable[TopicPartition]) -> Offsets:
    """Return the offsets of a bound.

    Parameters:
        consumer: sends the requests; with isolation.level=read_committed, "latest" is the last stable offset.
        bound: the bound. A partition without a committed offset is read from its earliest offset, if another one has a
            committed offset.
        partitions: all partitions to read.

    Raises:
        OptionError: the bound does not name exactly these partitions; or there is no group, or it has committed
            nothing.
        SourceError: a partition has no record at or after the timestamp.
        KafkaError: the request failed.
    """
    chosen = list(partitions)
    if not chosen:
        return {}
    if bound.kind is Kind.EARLIEST:
        return consumer.beginning_offsets(chosen)
    if bound.kind is Kind.LATEST:
        return consumer.end_offsets(chosen)
    if bound.kind is Kind.COMMITTED:
        return _committed(consumer, bound, chosen)
    if bound.kind is Kind.TIMES:
        return _at_times(consumer, bound, chosen)
    return _replaced(consumer, _for_each(bound, chosen))


def _committed(consumer: Consumer, bound: Bound, partitions: list[TopicPartition]) -> Offsets:
    group = consumer.config.group_id
    if group is None:
        raise OptionError(f"{bound.option}=committed needs the group that committed the offsets: set kafka.group.id")
    committed = consumer.committed(partitions)
    without = [tp for tp in partitions if committed[tp] is None]
    if len(without) == len(partitions):
        # The name may be misspelt, and then all records would be read again.
        raise OptionError(
            f"{bound.option}=committed: the group {group!r} has no committed offsets for these partitions; check its "
            f"name (kafka.group.id), commit first, or start with {bound.option}=earliest"
        )
    if without:
        _log.warning(
            "the group %r has no committed offset for %s: reading from the earliest offset",
            group,
            ", ".join(map(str, without)),
        )
    return _replaced(consumer, {tp: EARLIEST if found is None else found.offset for tp, found in committed.items()})


def _at_times(consumer: Consumer, bound: Bound, partitions: list[TopicPartition]) -> Offsets:
    times = _for_each(bound, partitions) if bound.time is None else dict.fromkeys(partitions, bound.time)
    found = consumer.offsets_for_times({(tp.topic, tp.partition): time for tp, time in times.items()})
    late = [tp for tp in partitions if found[tp] is None]
    if late and not bound.latest_if_none:
        raise SourceError(
            f"{bound.option}: no record has that timestamp or a later one in {', '.join(map(str, late))}; "
            "startingOffsetsByTimestampStrategy=latest starts such partitions at their end"
        )
    return _replaced(consumer, {tp: LATEST if place is None else place.offset for tp, place in found.items()})


def _for_each(bound: Bound, partitions: list[TopicPartition]) -> Offsets:
    given = {
        TopicPartition(topic, partition): number
        for topic, by_partition in (bound.values or {}).items()
        for partition, number in by_partition.items()
    }
    missing, unknown = sorted(set(partitions) - set(given)), sorted(set(given) - set(partitions))
    if missing:
        also = f", and names {', '.join(map(str, unknown))}, which are not read" if unknown else ""
        raise OptionError(
            f"{bound.option} must name all partitions that are read; it lacks {', '.join(map(str, missing))}{also}"
        )
    if unknown:
        raise OptionError(f"{bound.option} names partitions that are not read: {', '.join(map(str, unknown))}")
    return given


def _replaced(consumer: Consumer, offsets: Offsets) -> Offsets:
    """Replace EARLIEST and LATEST by offsets."""
    earliest = [tp for tp, offset in offsets.items() if offset == EARLIEST]
    latest = [tp for tp, offset in offsets.items() if offset == LATEST]
    found = {**offsets}
    if earliest:
        found.update(consumer.beginning_offsets(earliest))
    if latest:
        found.update(consumer.end_offsets(latest))
    return found


def available(
    ranges: Iterable[Range],
    first: Mapping[TopicPartition, int],
    last: Mapping[TopicPartition, int],
    *,
    fail_on_data_loss: bool,
) -> list[Range]:
    """Return the ranges as far as they exist in the logs.

    Gaps from compaction or transactions within a log are not considered.

    Parameters:
        ranges: the ranges to read.
        first, last: the start and end of the log, by partition.
        fail_on_data_loss: whether missing offsets are an error; otherwise they are logged.

    Raises:
        DataLossError: offsets are missing.
    """
    lost: list[Lost] = []
    there: list[Range] = []
    for one in ranges:
        low, high = first[one.partition], last[one.partition]
        if one.start < low and one.start < one.end:
            lost.append(Lost(one.partition, one.start, min(low, one.end), low, high))
        if one.end > max(high, one.start):
            lost.append(Lost(one.partition, max(high, one.start), one.end, low, high))
        elif one.start > high:
            lost.append(Lost(one.partition, high, one.start, low, high))
        start = min(max(one.start, low), high)
        there.append(Range(one.partition, start, max(start, min(one.end, high))))
    report(lost, fail_on_data_loss=fail_on_data_loss)
    return there


def report(lost: list[Lost], *, fail_on_data_loss: bool) -> None:
    """Raise an error for lost ranges, or log them.

    Raises:
        DataLossError: there are lost ranges, and that is an error.
    """
    if not lost:
        return
    error = DataLossError(lost)
    if fail_on_data_loss:
        raise error
    _log.warning("%s", error)
