"""The async face of the admin client, on asyncio and trio: the same calls as `Admin`, awaited."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

import anyio
import anyio.to_thread

from kclient.admin import cluster, configs, offsets, topics
from kclient.admin.admin import Admin
from kclient.admin.cluster import ClusterDescription
from kclient.admin.configs import AlterConfig, ConfigEntry, ConfigResource
from kclient.admin.core import AdminCore
from kclient.admin.offsets import OffsetSpec
from kclient.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing
from kclient.config import AdminConfig
from kclient.net.operation import run_async
from kclient.net.waiting import LoopBridge
from kclient.options import AdminOptions
from kclient.types import OffsetAndTimestamp, TopicPartition

CLOSE_SECONDS = 30.0


class AsyncAdmin:
    """`Admin` for asyncio and trio; made and used in one running loop. What each call does is told there."""

    def __init__(self, **options: Unpack[AdminOptions]) -> None:
        self._core = AdminCore(AdminConfig.from_options(options))
        self._bridge = LoopBridge()

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Unpack[AdminOptions]
    ) -> Self:
        """Make one from Kafka's dotted names: a mapping or a .properties file; keyword options win."""
        made = cls.__new__(cls)
        made._core = AdminCore(AdminConfig.from_properties(properties, **options))
        made._bridge = LoopBridge()
        return made

    async def create_topics(
        self, new_topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        deadline = self._core.deadline("create_topics", timeout)
        return await run_async(topics.create_topics(self._core, new_topics, validate_only, deadline), self._bridge)

    async def delete_topics(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        deadline = self._core.deadline("delete_topics", timeout)
        return await run_async(topics.delete_topics(self._core, names, deadline), self._bridge)

    async def list_topics(
        self, *, include_internal: bool = False, timeout: float | None = None
    ) -> dict[str, TopicListing]:
        deadline = self._core.deadline("list_topics", timeout)
        return await run_async(topics.list_topics(self._core, include_internal, deadline), self._bridge)

    async def describe_topics(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        deadline = self._core.deadline("describe_topics", timeout)
        return await run_async(topics.describe_topics(self._core, names, deadline), self._bridge)

    async def create_partitions(
        self, new: Mapping[str, NewPartitions], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, None]:
        deadline = self._core.deadline("create_partitions", timeout)
        return await run_async(topics.create_partitions(self._core, new, validate_only, deadline), self._bridge)

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        deadline = self._core.deadline("describe_configs", timeout)
        return await run_async(
            configs.describe_configs(self._core, resources, include_documentation, deadline), self._bridge
        )

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[AlterConfig]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, None]:
        deadline = self._core.deadline("incremental_alter_configs", timeout)
        return await run_async(
            configs.incremental_alter_configs(self._core, changes, validate_only, deadline), self._bridge
        )

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        deadline = self._core.deadline("list_offsets", timeout)
        return await run_async(offsets.list_offsets(self._core, wanted, isolation_level, deadline), self._bridge)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        deadline = self._core.deadline("delete_records", timeout)
        return await run_async(offsets.delete_records(self._core, before, deadline), self._bridge)

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        deadline = self._core.deadline("describe_cluster", timeout)
        return await run_async(cluster.describe_cluster(self._core, deadline), self._bridge)

    def metrics(self) -> dict[str, Any]:
        return self._core.engine.metrics.snapshot()

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        await anyio.to_thread.run_sync(self._core.close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.drop("AsyncAdmin")


def _adopt_descriptions() -> None:
    """What a call does is written once, at `Admin`; help() on the async twin shows it as well."""
    for name, function in vars(AsyncAdmin).items():
        if callable(function) and not function.__doc__ and hasattr(Admin, name):
            function.__doc__ = getattr(Admin, name).__doc__


_adopt_descriptions()
