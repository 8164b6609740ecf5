"""The records of a coordinator's log: from messages to bytes and back, and the partition that a key belongs to."""

from __future__ import annotations

from typing import NamedTuple

from kclient.protocol import Message
from kclient.protocol.log_records import Data, decode_key, decode_versioned, encode_key, encode_versioned, value_type

_UINT32 = 0xFFFFFFFF


class CoordinatorRecord(NamedTuple):
    """A record to be written.

    Attributes:
        key: what it is about.
        value: what is so from now on, None when it is gone.
        version: of the value's form.
    """

    key: Message
    value: Message | None = None
    version: int = 0

    def encode(self) -> tuple[bytes, bytes | None]:
        """Key and value as they are in the log."""
        value = None if self.value is None else encode_versioned(self.value, self.version)
        return encode_key(self.key), value


def decode_record(key: Data, value: Data | None, topic: str) -> tuple[Message, Message | None]:
    """Key and value of a record of a topic.

    Raises:
        UnknownRecordTypeError: a newer broker may have written it.
        ProtocolError: it is damaged.
    """
    decoded = decode_key(key, topic)
    return decoded, None if value is None else decode_versioned(value_type(decoded), value)


def partition_for(key: str, partitions: int) -> int:
    """The partition whose leader coordinates a key: Java's `Utils.abs(key.hashCode()) % partitions`."""
    code = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        code = (code * 31 + (units[position] << 8 | units[position + 1])) & _UINT32
    if code >= 1 << 31:
        code -= 1 << 32
    # The smallest number has no positive one of its size in Java, whose abs makes it 0.
    return 0 if code == -(1 << 31) else abs(code) % partitions
