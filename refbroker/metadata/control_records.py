"""Control records of the metadata log and of snapshots: whose epoch it is, where a snapshot begins and ends, who votes.

The key says which kind it is (version int16, type int16), the value is a message, at version 0. Since kraft.version 1
(KIP-853) the voters are in the log; before, they are in the settings of each controller, and in no record.
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
    """A batch of control records.

    Parameters:
        timestamp_ms: milliseconds since the epoch.
        base_offset, leader_epoch: for a batch that no log stamps later.
    """
    builder = BatchBuilder()
    for message in messages:
        builder.append(timestamp_ms, _KEY.pack(0, _TYPES[type(message)]), message.encode(0))
    return bytes(builder.build(is_control=True, base_offset=base_offset, partition_leader_epoch=leader_epoch))


def decode_control(record: Any) -> Message | None:
    """What a control record says; None for a kind that has no meaning here.

    Raises:
        CorruptRecordError: it is no control record.
        ProtocolError: its value is damaged.
    """
    kind = _MESSAGES.get(parse_control_record(record).type)
    return None if kind is None else kind.decode(record.value or b"", 0)


@dataclass(slots=True)
class VoterSet:
    """Who votes for the leader of the metadata log, as far as records say.

    Attributes:
        kraft_version: 0 when the voters are in the controllers' settings, 1 when they are in records.
        voters: the record of them, at version 1.
    """

    kraft_version: int = 0
    voters: VotersRecord | None = None

    def replay(self, message: Message | None) -> None:
        """Take note of a control record."""
        if isinstance(message, KRaftVersionRecord):
            self.kraft_version = message.kraft_version
        elif isinstance(message, VotersRecord):
            self.voters = message

    def records(self) -> list[Message]:
        """The records that say it again."""
        if self.kraft_version == 0:
            return []
        version: list[Message] = [KRaftVersionRecord(kraft_version=self.kraft_version)]
        return version if self.voters is None else [*version, self.voters]
