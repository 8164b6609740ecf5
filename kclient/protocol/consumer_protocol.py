"""What members of a classic consumer group tell each other through the coordinator, which does not read it.

On the wire the version, an int16, precedes each (`encode_versioned` and `decode_versioned`).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.schema import Message, Struct, array, ignorable, int32, map_key, message, since


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
