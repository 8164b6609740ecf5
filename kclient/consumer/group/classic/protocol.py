"""The bytes that members of a classic group exchange through the coordinator, as the Java client writes them.

A subscription contains what a member subscribes to and owns, an assignment what it receives; each begins with its
version, an int16. Newer versions only append fields, and are decoded like the newest known one. Elsewhere: the
assignors' own bytes (`kclient.assignors`).
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
"""The protocol type of consumer groups."""


class GroupSubscription(NamedTuple):
    """The subscription that a member sends to the leader.

    Attributes:
        topics: the subscribed topics.
        owned: the partitions that it keeps reading until they are revoked.
        generation: the generation of that assignment, or -1.
        rack: the member's rack.
        user_data: the data of its assignor.
    """

    topics: Sequence[str]
    owned: Sequence[TopicPartition] = ()
    generation: int = -1
    rack: str | None = None
    user_data: bytes = b""


def encode_subscription(subscription: GroupSubscription) -> bytes:
    """Return the bytes of a subscription, in the highest version."""
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
    """Decode a subscription of any version.

    Raises:
        ProtocolError: the bytes are malformed.
    """
    message = decode_any_version(ConsumerProtocolSubscription, data)
    owned = [TopicPartition(entry.topic, number) for entry in message.owned_partitions for number in entry.partitions]
    return GroupSubscription(
        message.topics, owned, message.generation_id, message.rack_id or None, message.user_data or b""
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes = b"") -> bytes:
    """Return the bytes of an assignment, in the highest version."""
    kind = ConsumerProtocolAssignment
    assigned = [kind.TopicPartition(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()]
    return encode_versioned(kind(assigned_partitions=assigned, user_data=user_data or None), kind.max_version)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """Decode the partitions of an assignment of any version.

    Raises:
        ProtocolError: the bytes are malformed.
    """
    message = decode_any_version(ConsumerProtocolAssignment, data)
    return [TopicPartition(entry.topic, number) for entry in message.assigned_partitions for number in entry.partitions]
