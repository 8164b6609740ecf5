"""The data that members of a classic consumer group exchange through the coordinator, which does not decode it.

On the wire each begins with its version, an int16 (`encode_versioned` and `decode_versioned`). Newer versions only
append fields, and are decoded like the newest known one (`decode_any_version`).
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
    """The subscription of a member of a classic consumer group, and its partitions."""

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
    """Decode the data of a member, in any version.

    Raises:
        ProtocolError: the bytes are malformed.
    """
    if len(data) < _VERSION.size:
        raise ProtocolError(f"a member's metadata must begin with a version, and has {len(data)} bytes")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"a member's metadata has the version {version}")
    found, _ = kind.decode_prefix(data[_VERSION.size :], min(version, kind.max_version))
    return found
