"""The levels of `metadata.version`, and in which version each record is written at a level.

A cluster that is not at the latest level must not get records its other nodes cannot read: Kafka chooses the versions
of records by the level, and leaves out fields that have none yet. Source: KIP-778, Kafka's MetadataVersion.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kclient.protocol import Message
from kclient.protocol.log_records import encode_metadata_record
from kclient.protocol.messages.records.metadata_log import BrokerRegistrationChangeRecord

METADATA_VERSION = "metadata.version"


class MetadataVersion(NamedTuple):
    """A level of `metadata.version`.

    Attributes:
        name: how command lines call it.
        changes_metadata: whether records can hold what they could not at the level before.
    """

    level: int
    name: str
    changes_metadata: bool


_NAMES = """
    3.3-IV3* 3.4-IV0* 3.5-IV0 3.5-IV1 3.5-IV2* 3.6-IV0 3.6-IV1* 3.6-IV2* 3.7-IV0* 3.7-IV1 3.7-IV2* 3.7-IV3 3.7-IV4
    3.8-IV0 3.9-IV0 4.0-IV0 4.0-IV1* 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0*
"""
METADATA_VERSIONS = tuple(
    MetadataVersion(level, name.rstrip("*"), name.endswith("*")) for level, name in enumerate(_NAMES.split(), start=7)
)
"""All that Kafka 4.3 can work at; a star among the names marks those that change what records hold."""

OLDEST, LATEST = METADATA_VERSIONS[0].level, METADATA_VERSIONS[-1].level

TRANSACTIONS = 13
SCRAM = 11
DELEGATION_TOKENS = 14
CONTROLLER_REGISTRATIONS = 15
DIRECTORIES = 17
ELIGIBLE_LEADERS = 23
CORDONED_DIRECTORIES = 30

_RECORD_VERSIONS: dict[str, tuple[tuple[int, int], ...]] = {
    "RegisterBrokerRecord": ((CORDONED_DIRECTORIES, 4), (DIRECTORIES, 3), (8, 2), (OLDEST, 1)),
    "PartitionRecord": ((ELIGIBLE_LEADERS, 2), (DIRECTORIES, 1), (OLDEST, 0)),
    "PartitionChangeRecord": ((ELIGIBLE_LEADERS, 2), (DIRECTORIES, 1), (OLDEST, 0)),
}
"""Record -> (from this level on, this version); records that are not here have had one version only."""

_YOUNGER_FIELDS: dict[str, tuple[tuple[int, str, Any], ...]] = {
    "RegisterBrokerRecord": ((DIRECTORIES, "log_dirs", []), (CORDONED_DIRECTORIES, "cordoned_log_dirs", None)),
    "PartitionRecord": (
        (DIRECTORIES, "directories", []),
        (ELIGIBLE_LEADERS, "eligible_leader_replicas", None),
        (ELIGIBLE_LEADERS, "last_known_elr", None),
    ),
    "PartitionChangeRecord": (
        (DIRECTORIES, "directories", None),
        (ELIGIBLE_LEADERS, "eligible_leader_replicas", None),
        (ELIGIBLE_LEADERS, "last_known_elr", None),
    ),
}
"""Record -> (the level that brought the field, the field, its value before)."""


def metadata_changes_between(one: int, other: int) -> bool:
    """Whether records can hold at the higher of two levels what they cannot at the lower."""
    low, high = sorted((one, other))
    return any(version.changes_metadata for version in METADATA_VERSIONS if low < version.level <= high)


def encode_record(record: Message, level: int) -> bytes:
    """The value of a record in the log or in a snapshot, as it is written at a level of `metadata.version`.

    Raises:
        ProtocolError: the record has something that cannot be said at this level.
    """
    kind = record.message_name
    for since, field, absent in _YOUNGER_FIELDS.get(kind, ()):
        if level < since and getattr(record, field) != absent:
            record = msgspec.structs.replace(record, **{field: absent})
    return encode_metadata_record(record, _version_of(record, level))


def _version_of(record: Message, level: int) -> int:
    if isinstance(record, BrokerRegistrationChangeRecord):
        # The smallest one that can hold what it has, as Kafka's controller writes it.
        if record.cordoned_log_dirs is not None:
            return 3
        return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
    versions = _RECORD_VERSIONS.get(record.message_name)
    if versions is None:
        return record.max_version
    return next(version for since, version in versions if level >= since)
