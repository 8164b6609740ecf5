"""Control records of the metadata log and of snapshots: leader changes, start and end of a snapshot, voters.

The key has the type (version int16, type int16), the value is a message in version 0. Since kraft.version 1 (KIP-853),
the log contains the voters; before, they are in the settings of each controller, and in no record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kclient.protocol import Message
from kclient.protocol.messages.records.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kclient.records import BatchBuilder, parse_control_record

_KEY = struct.Struct(">hh")
_TYPES: dict[type[Message], int] = {
    LeaderChangeMessage: 2,
    SnapshotHeaderRecord: 3,
    SnapshotFooterRecord: 4,
    KRaftVersionRecord: 5,
    VotersRecord: 6,
}
_MESSAGES = {number: kind for kind, number in _TYPES.items()}


def control_batch(
    messages: Iterable[Message], timestamp_ms: int, *, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """Return a batch of control records.

    Parameters:
        timestamp_ms: milliseconds since the epoch.
        base_offset, leader_epoch: for a batch that is not appended to a log.
    """
    builder = BatchBuilder()
    for message in messages:
        builder.append(timestamp_ms, _KEY.pack(0, _TYPES[type(message)]), message.encode(0))
    return bytes(builder.build(is_control=True, base_offset=base_offset, partition_leader_epoch=leader_epoch))


def decode_control(record: Any) -> Message | None:
    """Return the message of a control record, None for a type that is not used here.

    Raises:
        CorruptRecordError: it is not a control record.
        ProtocolError: its value is damaged.
    """
    kind = _MESSAGES.get(parse_control_record(record).type)
    return None if kind is None else kind.decode(record.value or b"", 0)


@dataclass(slots=True)
class VoterSet:
    """The voters of the metadata log, as far as records contain them.

    Attributes:
        kraft_version: 0 if the voters are in the controllers' settings, 1 if they are in records.
        voters: the record of the voters, in version 1.
    """

    kraft_version: int = 0
    voters: VotersRecord | None = None

    def replay(self, message: Message | None) -> None:
        """Apply a control record."""
        if isinstance(message, KRaftVersionRecord):
            self.kraft_version = message.kraft_version
        elif isinstance(message, VotersRecord):
            self.voters = message

    def records(self) -> list[Message]:
        """Return the records with the current voters."""
        if self.kraft_version == 0:
            return []
        version: list[Message] = [KRaftVersionRecord(kraft_version=self.kraft_version)]
        return version if self.voters is None else [*version, self.voters]
