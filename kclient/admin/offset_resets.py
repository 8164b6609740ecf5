"""Resets of a group's committed offsets: to the first record, the end, a time or an offset.

The checks are those of Kafka's own tool: the group must have no members, and nothing is committed beyond a partition's
first and last offset. As there, a reset of named partitions creates a group that does not exist; without them the tool
prints nothing and succeeds, while this raises. Members may join between the check and the commit; then the commit
fails, because it comes from a non-member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import NamedTuple, NoReturn

import msgspec

from kclient.admin.arguments import duration, instance, mapping, moment, number, partition, text
from kclient.admin.core import AdminCore, succeeded
from kclient.admin.group_offsets import alter_group_offsets, list_group_offsets
from kclient.admin.groups import GroupState, describe_groups
from kclient.admin.offsets import OffsetSpec, list_offsets
from kclient.admin.topic_descriptions import describe_topics
from kclient.errors import AdminError, ConfigError, GroupIdNotFoundError, GroupNotEmptyError, IllegalStateError
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.net.runtime import current
from kclient.types import TopicPartition

READ_UNCOMMITTED = "read_uncommitted"


class ResetKind(Enum):
    """The target of a reset."""

    TIME = 1
    SHIFT = 2
    OFFSET = 3
    OFFSETS = 4


class OffsetReset(NamedTuple):
    """Where a group continues to read; made by one of the methods below.

    An offset outside of the partition is moved to its first or last offset.
    """

    kind: ResetKind
    value: int = 0
    offsets: Mapping[TopicPartition, int] | None = None

    @classmethod
    def earliest(cls) -> OffsetReset:
        """Reset to the first record."""
        return cls(ResetKind.TIME, OffsetSpec.EARLIEST)

    @classmethod
    def latest(cls) -> OffsetReset:
        """Reset to the end, so that only new records are read."""
        return cls(ResetKind.TIME, OffsetSpec.LATEST)

    @classmethod
    def to_time(cls, time: datetime | int) -> OffsetReset:
        """Reset to the first record of this time or later; to the end of a partition that has none.

        Parameters:
            time: a datetime, local time if it has no zone; or milliseconds since the epoch.
        """
        return cls(ResetKind.TIME, max(0, moment(time, "OffsetReset.to_time")))

    @classmethod
    def by_duration(cls, seconds: float) -> OffsetReset:
        """Reset to the first record of this many seconds ago or later."""
        return cls.to_time(current().time_ms() - round(duration(seconds, "OffsetReset.by_duration") * 1000))

    @classmethod
    def shift_by(cls, count: int) -> OffsetReset:
        """Reset by this many offsets relative to the committed ones; backwards with a negative count."""
        return cls(ResetKind.SHIFT, number(count, "OffsetReset.shift_by"))

    @classmethod
    def to_offset(cls, offset: int) -> OffsetReset:
        """Reset to the same offset in every partition."""
        return cls(ResetKind.OFFSET, number(offset, "OffsetReset.to_offset"))

    @classmethod
    def to_offsets(cls, offsets: Mapping[TopicPartition, int]) -> OffsetReset:
        """Reset to a given offset of each partition."""
        return cls(ResetKind.OFFSETS, offsets=mapping(offsets, partition, number, "OffsetReset.to_offsets"))


class OffsetChange(msgspec.Struct, frozen=True):
    """The change of a partition by a reset: the committed offset before (None without one) and after."""

    before: int | None
    after: int


def reset_group_offsets(
    core: AdminCore,
    group: str,
    to: OffsetReset,
    partitions: Iterable[TopicPartition | str] | None,
    dry_run: bool,
    deadline: Deadline,
) -> Operation[dict[TopicPartition, OffsetChange]]:
    text(group, deadline.name)
    instance(to, OffsetReset, deadline.name)
    if to.kind is ResetKind.OFFSETS and partitions is not None:
        raise ConfigError("to_offsets already has the partitions; do not pass partitions=")
    named = None if partitions is None else _named(partitions, deadline)
    exists = yield from _check_empty(core, group, deadline)
    committed = (yield from list_group_offsets(core, {group: None}, False, deadline))[group]
    if to.offsets is not None:
        wanted = list(to.offsets)
    elif named is None:
        if not committed:
            _raise_nothing_to_reset(group, exists)
        wanted = list(committed)
    else:
        wanted = yield from _expanded(core, named, deadline)
    before = {key: found.offset for key in wanted if (found := committed.get(key)) is not None}
    after, errors = yield from _targets(core, to, wanted, before, deadline)
    if not dry_run and after:
        try:
            done = yield from alter_group_offsets(core, group, after, deadline)
        except AdminError as error:
            done = error.results
            errors |= error.errors
        after = {key: after[key] for key in done}
    changes = {key: OffsetChange(before.get(key), after[key]) for key in sorted(after)}
    if errors:
        raise AdminError(changes, errors)
    return changes


def _check_empty(core: AdminCore, group: str, deadline: Deadline) -> Operation[bool]:
    """Raise if the group has members, before anything is changed; return whether it exists."""
    found, errors = yield from succeeded(describe_groups(core, [group], deadline))
    error = errors.get(group)
    if error is not None and not isinstance(error, GroupIdNotFoundError):
        raise error
    description = found.get(group)
    if description is not None and description.state is not GroupState.EMPTY:
        number = len(description.members)
        advice = "stop them, and reset the offsets then" if number else "try again when its rebalance has ended"
        raise GroupNotEmptyError(f"the group {group!r} is {description.state.value} and has {number} members; {advice}")
    return error is None


def _raise_nothing_to_reset(group: str, exists: bool) -> NoReturn:
    """Raise for a reset of all committed offsets of a group without any; with partitions the reset commits some."""
    how = "to commit offsets for it, name topics or partitions"
    if not exists:
        raise GroupIdNotFoundError(f"the group {group!r} does not exist; {how}")
    raise IllegalStateError(f"the group {group!r} has committed nothing that could be reset; {how}")


def _named(given: Iterable[TopicPartition | str], deadline: Deadline) -> list[TopicPartition | str]:
    """Return partitions and topic names; a single string is one topic."""
    each = [given] if isinstance(given, str) else list(given)
    return [one if isinstance(one, str) else partition(one, deadline.name) for one in each]


def _expanded(
    core: AdminCore, given: list[TopicPartition | str], deadline: Deadline
) -> Operation[list[TopicPartition]]:
    """Return the given partitions, and all partitions of the given topics."""
    topics = [each for each in given if isinstance(each, str)]
    described = yield from describe_topics(core, topics, deadline)
    found = [each for each in given if not isinstance(each, str)]
    found += [TopicPartition(topic, info.partition) for topic in described for info in described[topic].partitions]
    return list(dict.fromkeys(found))


def _targets(
    core: AdminCore,
    to: OffsetReset,
    wanted: list[TopicPartition],
    before: Mapping[TopicPartition, int],
    deadline: Deadline,
) -> Operation[tuple[dict[TopicPartition, int], dict[TopicPartition, BaseException]]]:
    """Return the new offset of each partition, and the errors of the others."""
    if to.kind is ResetKind.TIME:
        return (yield from _offsets_of_time(core, wanted, to.value, deadline))
    errors: dict[TopicPartition, BaseException] = {}
    asked: dict[TopicPartition, int] = {}
    for key in wanted:
        if to.kind is ResetKind.OFFSET:
            asked[key] = to.value
        elif to.offsets is not None:
            asked[key] = to.offsets[key]
        elif key in before:
            asked[key] = before[key] + to.value
        else:
            message = "the group has committed nothing that could be shifted; reset to an offset or a time"
            errors[key] = IllegalStateError(message, topic=key.topic, partition=key.partition)
    first, missing = yield from _offsets_of_time(core, asked, OffsetSpec.EARLIEST, deadline)
    last, more = yield from _offsets_of_time(core, first, OffsetSpec.LATEST, deadline)
    return {key: min(max(asked[key], first[key]), last[key]) for key in last}, {**errors, **missing, **more}


def _offsets_of_time(
    core: AdminCore, partitions: Iterable[TopicPartition], at: int, deadline: Deadline
) -> Operation[tuple[dict[TopicPartition, int], dict[TopicPartition, BaseException]]]:
    """Return the offset of each partition at a time or special time; the end if no record is that recent."""
    found, errors = yield from succeeded(list_offsets(core, dict.fromkeys(partitions, at), READ_UNCOMMITTED, deadline))
    older = [key for key, offset in found.items() if offset.offset < 0]
    ends, more = yield from succeeded(
        list_offsets(core, dict.fromkeys(older, OffsetSpec.LATEST), READ_UNCOMMITTED, deadline)
    )
    offsets = {key: (ends.get(key) or offset).offset for key, offset in found.items() if key not in more}
    return offsets, {**errors, **more}
