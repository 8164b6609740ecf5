"""The methods of the admin clients for topics, and for the offsets and the records of their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.admin import offsets, topic_descriptions, topics
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by
from kclient.admin.offsets import OffsetSpec
from kclient.admin.topic_descriptions import TopicDescription, TopicListing
from kclient.admin.topics import CreatedTopic, NewPartitions, NewTopic
from kclient.types import OffsetAndTimestamp, TopicPartition


class TopicMethods(BlockingMethods):
    """The blocking methods."""

    def create_topics(
        self, new_topics: NewTopic | Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create topics; return once each has leaders and every reachable broker knows it.

        Parameters:
            new_topics: one topic or several.
            validate_only: whether to check the request only.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by topic: TopicExistsError, InvalidTopicError, InvalidReplicationFactorError, InvalidPartitionsError,
        InvalidConfigurationError, PolicyViolationError and others.
        """
        deadline = self._core.deadline("create_topics", timeout)
        return self._run(topics.create_topics(self._core, new_topics, validate_only, deadline))

    def delete_topics(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        """Delete topics with all their records.

        Errors by topic: UnknownTopicOrPartitionError and others.
        """
        deadline = self._core.deadline("delete_topics", timeout)
        return self._run(topics.delete_topics(self._core, names, deadline))

    def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> dict[str, TopicListing]:
        """Return all topics by name.

        Parameters:
            include_internal: whether to include internal topics, such as __consumer_offsets.
            timeout: seconds; None is the option default_api_timeout_ms.
        """
        deadline = self._core.deadline("list_topics", timeout)
        return self._run(topic_descriptions.list_topics(self._core, include_internal, deadline))

    def describe_topics(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, TopicDescription]:
        """Return the partitions of topics: leader, replicas, in-sync replicas, eligible leader replicas (KIP-966).

        The partitions of many topics are requested in pages of 2000.

        Errors by topic: UnknownTopicOrPartitionError.
        """
        deadline = self._core.deadline("describe_topics", timeout)
        return self._run(topic_descriptions.describe_topics(self._core, names, deadline))

    def create_partitions(
        self, new: Mapping[str, NewPartitions], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, None]:
        """Add partitions to topics.

        Parameters:
            new: the new number of partitions of each topic.
            validate_only: whether to check the request only.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by topic: InvalidPartitionsError, UnknownTopicOrPartitionError.
        """
        deadline = self._core.deadline("create_partitions", timeout)
        return self._run(topics.create_partitions(self._core, new, validate_only, deadline))

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return the offset of each partition for an `OffsetSpec`, or the first record at or after a time.

        Parameters:
            wanted: an `OffsetSpec`, or milliseconds since the epoch, by partition.
            isolation_level: "read_uncommitted" or "read_committed"; decides what the latest offset is.
            timeout: seconds; None is the option default_api_timeout_ms.

        Returns:
            Offset and timestamp by partition. The offset is -1 if no record is that recent; the timestamp is -1 for
            EARLIEST and LATEST.
        """
        deadline = self._core.deadline("list_offsets", timeout)
        return self._run(offsets.list_offsets(self._core, wanted, isolation_level, deadline))

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset, and return the new first offset of each partition.

        Parameters:
            before: the offset by partition; -1 deletes all records.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by partition: OffsetOutOfRangeError, PolicyViolationError for compacted topics.
        """
        deadline = self._core.deadline("delete_records", timeout)
        return self._run(offsets.delete_records(self._core, before, deadline))


@documented_by(TopicMethods)
class AsyncTopicMethods(AsyncMethods):
    """The same methods for asyncio and trio."""

    async def create_topics(
        self, new_topics: NewTopic | Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        deadline = self._core.deadline("create_topics", timeout)
        return await self._run(topics.create_topics(self._core, new_topics, validate_only, deadline))

    async def delete_topics(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        deadline = self._core.deadline("delete_topics", timeout)
        return await self._run(topics.delete_topics(self._core, names, deadline))

    async def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> dict[str, TopicListing]:
        deadline = self._core.deadline("list_topics", timeout)
        return await self._run(topic_descriptions.list_topics(self._core, include_internal, deadline))

    async def describe_topics(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        deadline = self._core.deadline("describe_topics", timeout)
        return await self._run(topic_descriptions.describe_topics(self._core, names, deadline))

    async def create_partitions(
        self, new: Mapping[str, NewPartitions], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, None]:
        deadline = self._core.deadline("create_partitions", timeout)
        return await self._run(topics.create_partitions(self._core, new, validate_only, deadline))

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        deadline = self._core.deadline("list_offsets", timeout)
        return await self._run(offsets.list_offsets(self._core, wanted, isolation_level, deadline))

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        deadline = self._core.deadline("delete_records", timeout)
        return await self._run(offsets.delete_records(self._core, before, deadline))
