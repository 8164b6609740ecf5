"""The levels of `metadata.version`, and the versions of records at each level.

The other nodes of a cluster at an older level must be able to read its records. Kafka therefore selects the versions of
records by level, and omits fields that do not exist at the level. Source: KIP-778, Kafka's MetadataVersion.
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
        name: the name on command lines.
        changes_metadata: whether records have new contents compared with the previous level.
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
"""All levels that Kafka 4.3 supports; a star in the names marks those that change the contents of records."""

OLDEST, LATEST = METADATA_VERSIONS[0].level, METADATA_VERSIONS[-1].level

TRANSACTIONS = 13
SCRAM = 11
SHRINKING_ISR_KEEPS_EPOCH = 12
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
"""Record -> (from this level on, this version); records that are not listed have only one version."""

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
"""Record -> (the level that introduced the field, the field, its value before)."""


def metadata_changes_between(one: int, other: int) -> bool:
    """Return whether records at the higher of two levels can contain more than at the lower one."""
    low, high = sorted((one, other))
    return any(version.changes_metadata for version in METADATA_VERSIONS if low < version.level <= high)


def encode_record(record: Message, level: int) -> bytes:
    """Return a record as it is written to the log or a snapshot at a level of `metadata.version`.

    Raises:
        ProtocolError: the record has contents that do not exist at this level.
    """
    kind = record.message_name
    for since, field, absent in _YOUNGER_FIELDS.get(kind, ()):
        if level < since and getattr(record, field) != absent:
            record = msgspec.structs.replace(record, **{field: absent})
    return encode_metadata_record(record, _version_of(record, level))


def _version_of(record: Message, level: int) -> int:
    if isinstance(record, BrokerRegistrationChangeRecord):
        # The lowest version that can contain the record, as Kafka's controller writes it.
        if record.cordoned_log_dirs is not None:
            return 3
        return 2 if record.log_dirs else 1 if record.in_controlled_shutdown else 0
    versions = _RECORD_VERSIONS.get(record.message_name)
    if versions is None:
        return record.max_version
    return next(version for since, version in versions if level >= since)
