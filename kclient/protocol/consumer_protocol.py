"""What members of a classic consumer group tell each other through the coordinator, which does not read it.

On the wire the version, an int16, precedes each (`encode_versioned` and `decode_versioned`). A version newer than ours
only adds at the end, and is read as ours (`decode_any_version`).
"""

from __future__ import annotations

import struct
from typing import Annotated, TypeVar

from kclient.errors import ProtocolError
from kclient.protocol.declaration import Message, message
from kclient.protocol.schema import Struct, array, ignorable, int32, map_key, since

M = TypeVar("M", bound=Message)

_VERSION = struct.Struct(">h")


@message(versions="0-3")
class ConsumerProtocolSubscription(Message):
    """What a member of a classic consumer group subscribes to, and what it owns."""

    topics: list[str] = array()
    user_data: bytes | None = None
    owned_partitions: Annotated[list[TopicPartition], since(1), ignorable] = array()
    generation_id: Annotated[int32, since(2), ignorable] = -1
    rack_id: Annotated[str | None, since(3), ignorable] = None

    class TopicPartition(Struct):
        topic: Annotated[str, map_key] = ""
        partitions: list[int32] = array()


@message(versions="0-3")
class ConsumerProtocolAssignment(Message):
    """The partitions assigned to a member of a classic consumer group."""

    assigned_partitions: list[TopicPartition] = array()
    user_data: bytes | None = None

    class TopicPartition(Struct):
        topic: Annotated[str, map_key] = ""
        partitions: list[int32] = array()


def decode_any_version(kind: type[M], data: bytes) -> M:
    """Read what a member told the others, in any version.

    Raises:
        ProtocolError: the bytes are no such message.
    """
    if len(data) < _VERSION.size:
        raise ProtocolError(f"a member's metadata must begin with a version, and has {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"a member's metadata has the version {version}")
    found, _ = kind.decode_prefix(data[_VERSION.size :], min(version, kind.max_version))
    return found
