"""The lag of groups, by partition. Elsewhere: the lag that a consumer itself knows (`consumer.health`)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kclient.admin.core import AdminCore, succeeded
from kclient.admin.group_offsets import list_group_offsets
from kclient.admin.groups import describe_groups
from kclient.admin.offsets import OffsetSpec, list_offsets
from kclient.errors import AdminError, UnknownTopicOrPartitionError
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.types import OffsetAndMetadata, TopicPartition


class PartitionLag(msgspec.Struct, frozen=True):
    """The lag of a group in a partition.

    Attributes:
        committed: the committed offset; None without one.
        end: the offset after the last record; None if the partition no longer exists.
        lag: the number of offsets between them; None if one of them is missing.
        member_id: the member that reads it; None without one.
    """

    committed: int | None
    end: int | None
    lag: int | None
    member_id: str | None


def group_lag(
    core: AdminCore, groups: str | Iterable[str], isolation_level: str, deadline: Deadline
) -> Operation[dict[str, dict[TopicPartition, PartitionLag]]]:
    """Return the lag of all partitions that a group has committed for, or that its members read."""
    described, errors = yield from succeeded(describe_groups(core, groups, deadline))
    committed, more = yield from succeeded(list_group_offsets(core, dict.fromkeys(described), False, deadline))
    errors |= more
    wanted: dict[str, dict[TopicPartition, str | None]] = {}
    for group, offsets in committed.items():
        readers = {key: member.member_id for member in described[group].members for key in member.assignment}
        wanted[group] = {key: readers.get(key) for key in sorted({*offsets, *readers})}
    everywhere = dict.fromkeys((key for keys in wanted.values() for key in keys), OffsetSpec.LATEST)
    ends, missing = yield from succeeded(list_offsets(core, everywhere, isolation_level, deadline))
    found: dict[str, dict[TopicPartition, PartitionLag]] = {}
    for group, keys in wanted.items():
        failed = [missing[key] for key in keys if not isinstance(missing.get(key), None | UnknownTopicOrPartitionError)]
        if failed:
            errors[group] = failed[0]
            continue
        found[group] = {
            key: _lag(committed[group].get(key), ends[key].offset if key in ends else None, reader)
            for key, reader in keys.items()
        }
    if errors:
        raise AdminError(found, errors)
    return found


def _lag(committed: OffsetAndMetadata | None, end: int | None, reader: str | None) -> PartitionLag:
    if committed is None:
        return PartitionLag(None, end, None, reader)
    # An end offset requested before a commit may be smaller than the commit.
    return PartitionLag(committed.offset, end, None if end is None else max(0, end - committed.offset), reader)
