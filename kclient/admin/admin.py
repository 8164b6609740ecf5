"""The blocking face of the admin client: each method names its operation and waits for it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Never, NoReturn, Self, TypeVar, Unpack

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
from kclient.net.operation import Operation, ThreadWaiter, run
from kclient.options import AdminOptions
from kclient.types import ClientHealth, OffsetAndMetadata, OffsetAndTimestamp, PreparedTransaction, TopicPartition

T = TypeVar("T")


@documents_options(AdminConfig)
class Admin:
    """An admin client for the topics, settings, offsets, groups and transactions of a cluster; threads may share it.

        with Admin(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics(NewTopic("orders", num_partitions=6))

    A method that takes several topics, groups or partitions returns a dict with a result for each. If some of them
    fail, it raises one AdminError, which has the results of the others. Retriable errors are retried until the timeout.

    Every method takes a `timeout` in seconds, by default default_api_timeout_ms, and may raise AdminError,
    KafkaTimeoutError, ClosedError, ForkError, or the error with which the cluster refused the request as a whole.

    Parameters:
        options: see `kclient.config.AdminConfig`.

    Raises:
        ConfigError: an option does not exist, or its value is invalid.
    """

    def __init__(self, *arguments: Never, **options: Unpack[AdminOptions]) -> None:
        refuse_positional(type(self), arguments)
        self._core = AdminCore(AdminConfig.from_options(options))

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Unpack[AdminOptions]
    ) -> Self:
        """Return an admin client configured with Kafka's dotted option names.

        Parameters:
            properties: a mapping such as `{"bootstrap.servers": ...}`, or the path of a .properties file.
            options: options by their Python names; they override the properties.
        """
        made = cls.__new__(cls)
        made._core = AdminCore(AdminConfig.from_properties(properties, **options))
        return made

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
        return self._run(topics.list_topics(self._core, include_internal, deadline))

    def describe_topics(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, TopicDescription]:
        """Return partitions, leaders and replicas of topics.

        Errors by topic: UnknownTopicOrPartitionError.
        """
        deadline = self._core.deadline("describe_topics", timeout)
        return self._run(topics.describe_topics(self._core, names, deadline))

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

    def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return the settings of each resource by name, with their sources.

        Parameters:
            resources: topics, brokers or groups.
            include_documentation: whether to ask for the broker's description of each setting.
            timeout: seconds; None is the option default_api_timeout_ms.
        """
        deadline = self._core.deadline("describe_configs", timeout)
        return self._run(configs.describe_configs(self._core, resources, include_documentation, deadline))

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, AlterConfig | Iterable[AlterConfig]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, None]:
        """Change single settings of resources (KIP-339).

        Parameters:
            changes: the changes by resource.
            validate_only: whether to check the request only.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by resource: InvalidConfigurationError and others.
        """
        deadline = self._core.deadline("incremental_alter_configs", timeout)
        return self._run(configs.incremental_alter_configs(self._core, changes, validate_only, deadline))

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

    def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        timeout: float | None = None,
    ) -> dict[str, GroupListing]:
        """Return the groups of all brokers by name.

        Parameters:
            states: only groups in these states; all if empty.
            types: only groups of these types; all if empty.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by broker: CoordinatorLoadInProgressError while a broker loads its groups, and others.
        """
        deadline = self._core.deadline("list_groups", timeout)
        return self._run(groups.list_groups(self._core, states, types, deadline))

    def describe_groups(
        self, names: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Return the state and the members of groups, with the assignment of each member.

        Errors by group: GroupIdNotFoundError, GroupAuthorizationError.
        """
        deadline = self._core.deadline("describe_groups", timeout)
        return self._run(groups.describe_groups(self._core, names, deadline))

    def delete_groups(self, names: str | Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        """Delete groups with their committed offsets.

        Errors by group: GroupNotEmptyError, GroupIdNotFoundError.
        """
        deadline = self._core.deadline("delete_groups", timeout)
        return self._run(groups.delete_groups(self._core, names, deadline))

    def remove_group_members(
        self,
        group: str,
        *,
        member_ids: Iterable[str] = (),
        instance_ids: Iterable[str] = (),
        everyone: bool = False,
        reason: str = REMOVED,
        timeout: float | None = None,
    ) -> dict[MemberIdentity, None]:
        """Remove members from a group; the remaining members share their partitions.

        A removed member that is still running joins again.

        Parameters:
            group: the group.
            member_ids: members by member id.
            instance_ids: static members by group instance id.
            everyone: whether to remove all members.
            reason: a text for the coordinator's log.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by member: UnknownMemberIdError, FencedInstanceIdError.
        """
        deadline = self._core.deadline("remove_group_members", timeout)
        return self._run(
            groups.remove_group_members(self._core, group, member_ids, instance_ids, everyone, reason, deadline)
        )

    def list_group_offsets(
        self,
        wanted: str | Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """Return committed offsets by group and partition; None for a requested partition without one.

        Parameters:
            wanted: one group, several, or a mapping of groups to partitions; None stands for all partitions of a group.
                A group that does not exist has no committed offsets.
            require_stable: whether to wait until open transactions that commit offsets have ended.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by group: GroupAuthorizationError and others.
        """
        deadline = self._core.deadline("list_group_offsets", timeout)
        return self._run(group_offsets.list_group_offsets(self._core, wanted, require_stable, deadline))

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Commit offsets for a group without members; the group is created if it does not exist.

        Errors by partition: UnknownMemberIdError if the group has members, UnknownTopicOrPartitionError and others.
        """
        deadline = self._core.deadline("alter_group_offsets", timeout)
        return self._run(group_offsets.alter_group_offsets(self._core, group, offsets, deadline))

    def reset_group_offsets(
        self,
        group: str,
        to: OffsetReset,
        *,
        partitions: Iterable[TopicPartition | str] | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetChange]:
        """Set the committed offsets of a group without members: `OffsetReset.earliest()`, `.to_time(...)` and others.

        An offset outside of the partition becomes the nearest one that exists.

        Parameters:
            group: the group.
            to: the new offsets.
            partitions: partitions, and topics for all of their partitions; None for all partitions that the group has
                committed offsets of.
            dry_run: whether to return the changes without making them.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by partition: UnknownTopicOrPartitionError, IllegalStateError for a shift without a committed offset.

        Raises:
            GroupNotEmptyError: the group has members; nothing was changed.
            GroupIdNotFoundError: the group does not exist, and no partitions are named; with partitions it is created.
            IllegalStateError: the group has no committed offsets, and no partitions are named.
        """
        deadline = self._core.deadline("reset_group_offsets", timeout)
        return self._run(offset_resets.reset_group_offsets(self._core, group, to, partitions, dry_run, deadline))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, None]:
        """Delete committed offsets of a group, for topics that none of its members subscribes to.

        Errors by partition: GroupSubscribedToTopicError, GroupIdNotFoundError, UnknownTopicOrPartitionError.
        """
        deadline = self._core.deadline("delete_group_offsets", timeout)
        return self._run(group_offsets.delete_group_offsets(self._core, group, partitions, deadline))

    def group_lag(
        self, names: str | Iterable[str], *, isolation_level: str = "read_uncommitted", timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, PartitionLag]]:
        """Return the lag of groups by group and partition, for assigned partitions and those with committed offsets.

        Parameters:
            names: the groups.
            isolation_level: with "read_committed" the end offset is the last stable offset.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by group: GroupIdNotFoundError and others.
        """
        deadline = self._core.deadline("group_lag", timeout)
        return self._run(group_lag.group_lag(self._core, names, isolation_level, deadline))

    def list_transactions(
        self,
        *,
        states: Iterable[TransactionState] = (),
        producer_ids: Iterable[int] = (),
        min_duration: float | None = None,
        transactional_id_pattern: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, TransactionListing]:
        """Return the transactional ids of all brokers.

        Parameters:
            states: only transactions in these states; all if empty.
            producer_ids: only transactions of these producer ids; all if empty.
            min_duration: only transactions that have been open for longer than so many seconds (KIP-994).
            transactional_id_pattern: only transactional ids that match this regular expression in RE2 syntax as a whole
                (KIP-1152).
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by broker: CoordinatorLoadInProgressError while a broker loads its transactions, and others.
        """
        deadline = self._core.deadline("list_transactions", timeout)
        return self._run(
            transactions.list_transactions(
                self._core, states, producer_ids, min_duration, transactional_id_pattern, deadline
            )
        )

    def describe_transactions(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Return state, producer id, epoch and partitions of transactional ids.

        Errors by transactional id: TransactionalIdNotFoundError, TransactionalIdAuthorizationError.
        """
        deadline = self._core.deadline("describe_transactions", timeout)
        return self._run(transactions.describe_transactions(self._core, transactional_ids, deadline))

    def complete_transaction(
        self, prepared: PreparedTransaction, *, commit: bool = True, timeout: float | None = None
    ) -> None:
        """Commit or abort a transaction that a producer has prepared, usually in another process (KIP-939).

        A repeated call with the same arguments has no further effect. The producer is not notified. The transaction is
        aborted if its timeout passes before this call, or if a producer calls init_transactions with its transactional
        id.

        Raises:
            InvalidTxnStateError: the transaction has ended the other way, or can no longer be ended; the text says
                which.
            ProducerFencedError: the transactional id was used again, or the transaction's timeout passed.
            InvalidPidMappingError: the transactional id has expired.
        """
        deadline = self._core.deadline("complete_transaction", timeout)
        return self._run(prepared_transactions.complete_transaction(self._core, prepared, commit, deadline))

    def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fence the producers of transactional ids, and abort their open transactions.

        The next call of a fenced producer raises ProducerFencedError; a new producer of the id works. An unknown
        transactional id is created.
        """
        deadline = self._core.deadline("fence_producers", timeout)
        return self._run(transactions.fence_producers(self._core, transactional_ids, deadline))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the producers that have written to partitions recently, as the leader or another replica knows them.

        Parameters:
            partitions: the partitions.
            broker_id: the broker of the replica to ask; None is the leader.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by partition: UnknownTopicOrPartitionError, NotLeaderOrFollowerError if the broker has no replica.
        """
        deadline = self._core.deadline("describe_producers", timeout)
        return self._run(producers.describe_producers(self._core, partitions, broker_id, deadline))

    def find_hanging_transactions(
        self,
        *,
        topics: str | Iterable[str] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout: float = MAX_TRANSACTION_TIMEOUT,
        timeout: float | None = None,
    ) -> list[HangingTransaction]:
        """Return open transactions that no coordinator will end (KIP-664).

        A hanging transaction blocks consumers with isolation_level="read_committed".

        Parameters:
            topics: the topics to search; None for all.
            broker_id: search only partitions that this broker leads; None for all.
            max_transaction_timeout: the longest time in seconds that a transaction of the cluster may be open, which is
                the brokers' transaction.max.timeout.ms.
            timeout: seconds; None is the option default_api_timeout_ms.
        """
        deadline = self._core.deadline("find_hanging_transactions", timeout)
        return self._run(
            producers.find_hanging_transactions(self._core, topics, broker_id, max_transaction_timeout, deadline)
        )

    def abort_transaction(
        self,
        partition: TopicPartition,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Abort a hanging transaction in one partition without its coordinator.

        Aborting a transaction that does not hang loses its records. Name the transaction by its start offset, as
        `find_hanging_transactions` returns it, or by producer id and epoch.

        Raises:
            IllegalStateError: no open transaction begins at that offset.
            InvalidProducerEpochError: the producer has a newer epoch in the partition.
            TransactionCoordinatorFencedError: the partition has had a marker with a higher coordinator epoch.
            ClusterAuthorizationError: the client may not alter the cluster.
        """
        deadline = self._core.deadline("abort_transaction", timeout)
        return self._run(
            producers.abort_transaction(
                self._core, partition, start_offset, producer_id, producer_epoch, coordinator_epoch, deadline
            )
        )

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers."""
        deadline = self._core.deadline("describe_cluster", timeout)
        return self._run(cluster.describe_cluster(self._core, deadline))

    def health(self) -> ClientHealth:
        """Return whether any broker is reachable, and the last error of each that is not. Any thread may call this.

        The call sends no request.
        """
        return self._core.health()

    def metrics(self) -> MetricValues:
        """Return the metrics by Kafka's names."""
        return self._core.engine.metrics.snapshot()

    def add_metrics_hook(self, hook: MetricsHook, *, interval: float = 10.0) -> None:
        """Call a function with the metrics at an interval, and a last time when the client closes.

        The function runs on a thread of its own, so it may block. What it raises is logged, and it is called again
        after the next interval.

        Parameters:
            hook: a plain function; it receives what `metrics()` returns.
            interval: seconds between two calls.

        Raises:
            TypeError: the hook is not a plain function.
            ValueError: the interval is not positive.
            ClosedError: the client was closed.
        """
        self._core.engine.add_metrics_hook(hook, interval)

    def close(self, timeout: float | None = None) -> None:
        """Close all connections; calls in progress raise ClosedError.

        Parameters:
            timeout: seconds; None is the option close_timeout_ms.
        """
        self._core.close(timeout)

    def __reduce__(self) -> NoReturn:
        refuse_pickling(self)

    def __repr__(self) -> str:
        state = "closed" if self._core.engine.closed else "open"
        return f"<Admin {self._core.config.client_id!r} {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None:
            core.drop("Admin")

    def _run(self, operation: Operation[T]) -> T:
        return run(operation, ThreadWaiter())
