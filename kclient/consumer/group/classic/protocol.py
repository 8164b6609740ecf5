"""The bytes that members of a classic group exchange through the coordinator, as the Java client writes them.

A subscription tells the leader what a member wants and has, an assignment tells a member what it gets; on the
wire each is preceded by its version, an int16. A newer version than ours only adds at the end, and is read as
ours. Leaves out the assignors' own bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kclient._topics import by_topic
from kclient.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_any_version,
)
from kclient.protocol.log_records import encode_versioned
from kclient.types import TopicPartition

PROTOCOL_TYPE = "consumer"
"""What kind of group this is, to the coordinator."""


class GroupSubscription(NamedTuple):
    """What a member tells the leader.

    Attributes:
        topics: what it subscribes to.
        owned: what it reads, and goes on reading until it is told otherwise.
        generation: in which that was assigned, or -1.
        rack: where it is.
        user_data: of its assignor.
    """

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    rack: str | None = None
    user_data: bytes = b""


def encode_subscription(subscription: GroupSubscription) -> bytes:
    """The bytes of a subscription, in the highest version."""
    kind = ConsumerProtocolSubscription
    owned = [
        kind.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in by_topic(sorted(subscription.owned)).items()
    ]
    message = kind(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data or None,
        owned_partitions=owned,
        generation_id=subscription.generation,
        rack_id=subscription.rack or None,
    )
    return encode_versioned(message, kind.max_version)


def decode_subscription(data: bytes) -> GroupSubscription:
    """Read a subscription of any version.

    Raises:
        ProtocolError: the bytes are none.
    """
    message = decode_any_version(ConsumerProtocolSubscription, data)
    owned = [TopicPartition(entry.topic, number) for entry in message.owned_partitions for number in entry.partitions]
    return GroupSubscription(
        message.topics, owned, message.generation_id, message.rack_id or None, message.user_data or b""
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes = b"") -> bytes:
    """The bytes of an assignment, in the highest version."""
    kind = ConsumerProtocolAssignment
    assigned = [kind.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()]
    return encode_versioned(kind(assigned_partitions=assigned, user_data=user_data or None), kind.max_version)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Read the partitions of an assignment of any version.

    Raises:
        ProtocolError: the bytes are none.
    """
    message = decode_any_version(ConsumerProtocolAssignment, data)
    return [TopicPartition(entry.topic, number) for entry in message.assigned_partitions for number in entry.partitions]
