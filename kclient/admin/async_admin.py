"""The async admin client, for asyncio and trio."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Never, NoReturn, Self, TypeVar, Unpack

import anyio
import anyio.to_thread

from kclient._help import documents_options
from kclient._misuse import refuse_pickling, refuse_positional
from kclient.admin import (
    cluster,
    configs,
    group_lag,
    group_offsets,
    groups,
    offset_resets,
    offsets,
    prepared_transactions,
    producers,
    topics,
    transactions,
)
from kclient.admin.admin import Admin
from kclient.admin.cluster import ClusterDescription
from kclient.admin.configs import AlterConfig, ConfigEntry, ConfigResource
from kclient.admin.core import AdminCore
from kclient.admin.group_lag import PartitionLag
from kclient.admin.groups import (
    REMOVED,
    GroupDescription,
    GroupListing,
    GroupState,
    GroupType,
    MemberIdentity,
)
from kclient.admin.offset_resets import OffsetChange, OffsetReset
from kclient.admin.offsets import OffsetSpec
from kclient.admin.producers import MAX_TRANSACTION_TIMEOUT, HangingTransaction, ProducerState
from kclient.admin.topics import CreatedTopic, NewPartitions, NewTopic, TopicDescription, TopicListing
from kclient.admin.transactions import (
    FencedProducer,
    TransactionDescription,
    TransactionListing,
    TransactionState,
)
from kclient.config import AdminConfig
from kclient.metrics import MetricsHook, MetricValues
from kclient.net.operation import Operation, TaskWaiter, run_async
from kclient.net.waiting import LoopBridge
from kclient.options import AdminOptions
from kclient.types import ClientHealth, OffsetAndMetadata, OffsetAndTimestamp, PreparedTransaction, TopicPartition

T = TypeVar("T")


@documents_options(AdminConfig)
class AsyncAdmin:
    """An admin client for asyncio and trio, with the methods of `Admin`; used in one event loop.

        async with AsyncAdmin(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics(NewTopic("orders", num_partitions=6))

    Parameters:
        options: see `kclient.config.AdminConfig`.

    Raises:
        ConfigError: an option does not exist, or its value is invalid.
        RuntimeError: no event loop is running.
    """

    def __init__(self, *arguments: Never, **options: Unpack[AdminOptions]) -> None:
        refuse_positional(type(self), arguments)
        self._bridge = LoopBridge()
        self._core = AdminCore(AdminConfig.from_options(options), self._bridge.post)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Unpack[AdminOptions]
    ) -> Self:
        """Return a client configured with Kafka's dotted option names; see `Admin.from_properties`."""
        made = cls.__new__(cls)
        made._bridge = LoopBridge()
        made._core = AdminCore(AdminConfig.from_properties(properties, **options), made._bridge.post)
        return made

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
        return await self._run(topics.list_topics(self._core, include_internal, deadline))

    async def describe_topics(
        self, names: Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TopicDescription]:
        deadline = self._core.deadline("describe_topics", timeout)
        return await self._run(topics.describe_topics(self._core, names, deadline))

    async def create_partitions(
        self, new: Mapping[str, NewPartitions], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, None]:
        deadline = self._core.deadline("create_partitions", timeout)
        return await self._run(topics.create_partitions(self._core, new, validate_only, deadline))

    async def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        deadline = self._core.deadline("describe_configs", timeout)
        return await self._run(configs.describe_configs(self._core, resources, include_documentation, deadline))

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, AlterConfig | Iterable[AlterConfig]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, None]:
        deadline = self._core.deadline("incremental_alter_configs", timeout)
        return await self._run(configs.incremental_alter_configs(self._core, changes, validate_only, deadline))

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

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        timeout: float | None = None,
    ) -> dict[str, GroupListing]:
        deadline = self._core.deadline("list_groups", timeout)
        return await self._run(groups.list_groups(self._core, states, types, deadline))

    async def describe_groups(
        self, names: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        deadline = self._core.deadline("describe_groups", timeout)
        return await self._run(groups.describe_groups(self._core, names, deadline))

    async def delete_groups(self, names: str | Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        deadline = self._core.deadline("delete_groups", timeout)
        return await self._run(groups.delete_groups(self._core, names, deadline))

    async def remove_group_members(
        self,
        group: str,
        *,
        member_ids: Iterable[str] = (),
        instance_ids: Iterable[str] = (),
        everyone: bool = False,
        reason: str = REMOVED,
        timeout: float | None = None,
    ) -> dict[MemberIdentity, None]:
        deadline = self._core.deadline("remove_group_members", timeout)
        return await self._run(
            groups.remove_group_members(self._core, group, member_ids, instance_ids, everyone, reason, deadline),
        )

    async def list_group_offsets(
        self,
        wanted: str | Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        deadline = self._core.deadline("list_group_offsets", timeout)
        return await self._run(group_offsets.list_group_offsets(self._core, wanted, require_stable, deadline))

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        deadline = self._core.deadline("alter_group_offsets", timeout)
        return await self._run(group_offsets.alter_group_offsets(self._core, group, offsets, deadline))

    async def reset_group_offsets(
        self,
        group: str,
        to: OffsetReset,
        *,
        partitions: Iterable[TopicPartition | str] | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetChange]:
        deadline = self._core.deadline("reset_group_offsets", timeout)
        return await self._run(offset_resets.reset_group_offsets(self._core, group, to, partitions, dry_run, deadline))

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, None]:
        deadline = self._core.deadline("delete_group_offsets", timeout)
        return await self._run(group_offsets.delete_group_offsets(self._core, group, partitions, deadline))

    async def group_lag(
        self, names: str | Iterable[str], *, isolation_level: str = "read_uncommitted", timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, PartitionLag]]:
        deadline = self._core.deadline("group_lag", timeout)
        return await self._run(group_lag.group_lag(self._core, names, isolation_level, deadline))

    async def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        min_duration: float | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, TransactionListing]:
        deadline = self._core.deadline("list_transactions", timeout)
        return await self._run(
            transactions.list_transactions(
                self._core, states, producer_ids, min_duration, transactional_id_pattern, deadline
            ),
        )

    async def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        deadline = self._core.deadline("describe_transactions", timeout)
        return await self._run(transactions.describe_transactions(self._core, transactional_ids, deadline))

    async def complete_transaction(
        self, prepared: PreparedTransaction, *, commit: bool = True, timeout: float | None = None
    ) -> None:
        deadline = self._core.deadline("complete_transaction", timeout)
        return await self._run(prepared_transactions.complete_transaction(self._core, prepared, commit, deadline))

    async def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        deadline = self._core.deadline("fence_producers", timeout)
        return await self._run(transactions.fence_producers(self._core, transactional_ids, deadline))

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        deadline = self._core.deadline("describe_producers", timeout)
        return await self._run(producers.describe_producers(self._core, partitions, broker_id, deadline))

    async def find_hanging_transactions(
        self,
        *,
        topics: str | Iterable[str] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout: float = MAX_TRANSACTION_TIMEOUT,
        timeout: float | None = None,
    ) -> list[HangingTransaction]:
        deadline = self._core.deadline("find_hanging_transactions", timeout)
        return await self._run(
            producers.find_hanging_transactions(self._core, topics, broker_id, max_transaction_timeout, deadline),
        )

    async def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int | None = None,
        timeout: float | None = None,
    ) -> None:
        deadline = self._core.deadline("abort_transaction", timeout)
        return await self._run(
            producers.abort_transaction(
                self._core, partition, start_offset, producer_id, producer_epoch, coordinator_epoch, deadline
            ),
        )

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        deadline = self._core.deadline("describe_cluster", timeout)
        return await self._run(cluster.describe_cluster(self._core, deadline))

    def health(self) -> ClientHealth:
        return self._core.health()

    def metrics(self) -> MetricValues:
        return self._core.engine.metrics.snapshot()

    def add_metrics_hook(self, hook: MetricsHook, *, interval: float = 10.0) -> None:
        self._core.engine.add_metrics_hook(hook, interval)

    async def close(self, timeout: float | None = None) -> None:
        """Close all connections; calls in progress raise ClosedError.

        Parameters:
            timeout: seconds; None is the option close_timeout_ms.
        """
        await anyio.to_thread.run_sync(self._core.close, timeout)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def __repr__(self) -> str:
        state = "closed" if self._core.engine.closed else "open"
        return f"<AsyncAdmin {self._core.config.client_id!r} {state}>"

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

    async def _run(self, operation: Operation[T]) -> T:
        return await run_async(operation, TaskWaiter(self._bridge))


def _adopt_descriptions() -> None:
    """Copy the docstrings of `Admin` to the methods without one, for `help()`."""
    for name, function in vars(AsyncAdmin).items():
        if callable(function) and not function.__doc__ and hasattr(Admin, name):
            function.__doc__ = getattr(Admin, name).__doc__


_adopt_descriptions()
