"""Encoding and decoding of the records of a coordinator's log, and the partition that a key belongs to."""

from __future__ import annotations

from typing import NamedTuple

from kclient.protocol import Message
from kclient.protocol.log_records import Data, decode_key, decode_versioned, encode_key, encode_versioned, value_type

_UINT32 = 0xFFFFFFFF


class CoordinatorRecord(NamedTuple):
    """A record to be written.

    Attributes:
        key: the record's key.
        value: the new state of the key; None for a tombstone.
        version: the version of the value's schema.
    """

    key: Message
    value: Message | None = None
    version: int = 0

    def encode(self) -> tuple[bytes, bytes | None]:
        """Return the key and the value as bytes."""
        value = None if self.value is None else encode_versioned(self.value, self.version)
        return encode_key(self.key), value


def decode_record(key: Data, value: Data | None, topic: str) -> tuple[Message, Message | None]:
    """Return the decoded key and value of a record of a topic.

    Raises:
        UnknownRecordTypeError: the type is unknown; a newer broker may have written the record.
        ProtocolError: the record is damaged.
    """
    decoded = decode_key(key, topic)
    return decoded, None if value is None else decode_versioned(value_type(decoded), value)


def partition_for(key: str, partitions: int) -> int:
    """Return the partition whose leader coordinates a key: Java's `Utils.abs(key.hashCode()) % partitions`."""
    code = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (code * 31 + (units[position] << 8 | units[position + 1])) & _UINT32
    if code >= 1 << 31:
        code -= 1 << 32
    # Integer.MIN_VALUE has no positive counterpart; Utils.abs of Kafka returns 0 for it.
    return 0 if code == -(1 << 31) else abs(code) % partitions
