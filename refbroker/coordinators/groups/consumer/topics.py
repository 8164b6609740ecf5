"""The topics of consumer groups, and the hash that detects changes.

The hash of a topic covers its id, name, partitions and the racks of their replicas. The hash of a group covers the
hashes of its topics. Both equal Kafka's. After a change of topics in the metadata, hashes are computed again and groups
compare them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

import xxhash

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from refbroker.metadata.image import ClusterImage, TopicState

_MAGIC = b"\0"


class GroupTopics:
    """The topics of the cluster, as groups see them.

    Parameters:
        image: returns the state of the cluster.

    Attributes:
        version_with_new_topics: the offset in the metadata of the last new topic.
    """

    def __init__(self, image: Callable[[], ClusterImage]) -> None:
        self._image = image
        self._hashes: dict[str, int] = {}
        self.version_with_new_topics = self.version

    @property
    def version(self) -> int:
        """The offset of the last record of the metadata."""
        return self._image().next_offset - 1

    def names(self) -> Iterator[str]:
        """Return the names of all topics."""
        return iter(self._image().topics)

    def named(self, name: str) -> TopicState | None:
        """Return a topic by name, None if it does not exist."""
        return self._image().topics.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        """Return the name of a topic, None if it was deleted."""
        topic = self._image().topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def ids(self, names: Iterable[str]) -> dict[UUID, int]:
        """Return those of the topics that exist, in the order of their names, with their numbers of partitions."""
        found = (self.named(name) for name in sorted(names))
        return {topic.topic_id: len(topic.partitions) for topic in found if topic is not None}

    def follow(self, records: Sequence[Message]) -> bool:
        """Apply a change of the metadata; return False if no topic has changed."""
        changed = False
        for record in records:
            if isinstance(record, TopicRecord | PartitionRecord | PartitionChangeRecord | RemoveTopicRecord):
                changed = True
            if isinstance(record, TopicRecord):
                self.version_with_new_topics = self.version
        if changed:
            self._hashes.clear()
        return changed

    def hash_of(self, names: Iterable[str]) -> int:
        """Return the hash of those of the topics that exist, as a signed number; 0 without any."""
        hashes = [self._hash(topic) for topic in map(self.named, sorted(names)) if topic is not None]
        return 0 if not hashes else _hash(struct.pack(f"<{len(hashes)}q", *hashes))

    def _hash(self, topic: TopicState) -> int:
        known = self._hashes.get(topic.name)
        if known is None:
            known = self._hashes[topic.name] = topic_hash(topic, self._racks)
        return known

    def _racks(self, topic: TopicState, partition: int) -> list[str]:
        brokers = self._image().brokers
        found = (brokers.get(replica) for replica in topic.partitions[partition].replicas)
        return [broker.rack for broker in found if broker is not None and broker.rack is not None]


def topic_hash(topic: TopicState, racks: Callable[[TopicState, int], list[str]]) -> int:
    """Return the hash of a topic, as a signed number.

    Parameters:
        racks: returns the racks of a partition's replicas.
    """
    count = len(topic.partitions)
    data = bytearray(_MAGIC)
    data += topic.topic_id.bytes[7::-1] + topic.topic_id.bytes[:7:-1] + _text(topic.name) + struct.pack("<i", count)
    for partition in range(count):
        data += struct.pack("<i", partition)
        for rack in sorted(racks(topic, partition)):
            encoded = _text(rack)
            data += encoded[-4:] + encoded
    return _hash(bytes(data))


def _text(text: str) -> bytes:
    """Return a text as the hash uses it: UTF-16 and the number of its units."""
    encoded = text.encode("utf-16-le", "surrogatepass")
    return encoded + struct.pack("<i", len(encoded) // 2)


def _hash(data: bytes) -> int:
    """Return the XXH3 hash of 64 bits as a signed number, which is what Kafka writes to the log."""
    value = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >> 63 else value
