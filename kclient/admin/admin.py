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
from kclient.metrics import MetricValues
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
        """Make one from Kafka's dotted names: a mapping or a .properties file; keyword options win."""
        made = cls.__new__(cls)
        made._core = AdminCore(AdminConfig.from_properties(properties, **options))
        return made

    def create_topics(
        self, new_topics: NewTopic | Iterable[NewTopic], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, CreatedTopic]:
        """Create one topic or several; return once they have leaders and every reachable broker knows them.

        Errors by topic: TopicExistsError, InvalidTopicError, InvalidReplicationFactorError,
        InvalidPartitionsError, InvalidConfigurationError, PolicyViolationError and others.
        """
        deadline = self._core.deadline("create_topics", timeout)
        return self._run(topics.create_topics(self._core, new_topics, validate_only, deadline))

    def delete_topics(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        """Delete topics with all their records. Errors by topic: UnknownTopicOrPartitionError and others."""
        deadline = self._core.deadline("delete_topics", timeout)
        return self._run(topics.delete_topics(self._core, names, deadline))

    def list_topics(self, *, include_internal: bool = False, timeout: float | None = None) -> dict[str, TopicListing]:
        """All topics by name."""
        deadline = self._core.deadline("list_topics", timeout)
        return self._run(topics.list_topics(self._core, include_internal, deadline))

    def describe_topics(self, names: Iterable[str], *, timeout: float | None = None) -> dict[str, TopicDescription]:
        """Topics with their partitions, leaders and replicas. Errors by topic: UnknownTopicOrPartitionError."""
        deadline = self._core.deadline("describe_topics", timeout)
        return self._run(topics.describe_topics(self._core, names, deadline))

    def create_partitions(
        self, new: Mapping[str, NewPartitions], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, None]:
        """Add partitions to topics. Errors by topic: InvalidPartitionsError, UnknownTopicOrPartitionError."""
        deadline = self._core.deadline("create_partitions", timeout)
        return self._run(topics.create_partitions(self._core, new, validate_only, deadline))

    def describe_configs(
        self,
        resources: ConfigResource | Iterable[ConfigResource],
        *,
        include_documentation: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The settings of each resource by name, with their sources."""
        deadline = self._core.deadline("describe_configs", timeout)
        return self._run(configs.describe_configs(self._core, resources, include_documentation, deadline))

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, AlterConfig | Iterable[AlterConfig]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> dict[ConfigResource, None]:
        """Change settings one by one (KIP-339). Errors by resource: InvalidConfigurationError and others."""
        deadline = self._core.deadline("incremental_alter_configs", timeout)
        return self._run(configs.incremental_alter_configs(self._core, changes, validate_only, deadline))

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec | int],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Offsets by name (`OffsetSpec`) or by time in milliseconds: the first record at or after it.

        An offset of -1 says that no record is that young. `timestamp` is -1 for EARLIEST and LATEST.
        """
        deadline = self._core.deadline("list_offsets", timeout)
        return self._run(offsets.list_offsets(self._core, wanted, isolation_level, deadline))

    def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records below an offset (-1: all); gives each partition's new first offset.

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
        """The groups of all brokers by name; only those in some states, or of some types, if these are given.

        Errors by broker, as CoordinatorLoadInProgressError of one that does not know its groups yet.
        """
        deadline = self._core.deadline("list_groups", timeout)
        return self._run(groups.list_groups(self._core, states, types, deadline))

    def describe_groups(
        self, names: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, GroupDescription]:
        """Groups with their state and members, and what each of these reads.

        Errors by group: GroupIdNotFoundError, GroupAuthorizationError.
        """
        deadline = self._core.deadline("describe_groups", timeout)
        return self._run(groups.describe_groups(self._core, names, deadline))

    def delete_groups(self, names: str | Iterable[str], *, timeout: float | None = None) -> dict[str, None]:
        """Delete groups with all they committed. Errors by group: GroupNotEmptyError, GroupIdNotFoundError."""
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
        """Take members out of a group: some, static ones by their instance ids, or everyone; the rest share their work.

        A member that still runs joins again. Errors by member: UnknownMemberIdError, FencedInstanceIdError.
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
        """What groups have committed, by group and partition; None where a partition that was asked for has nothing.

        `wanted` is one group, several, or a mapping of each to its partitions (None: all it has committed for). With
        `require_stable` it waits until transactions that commit offsets have ended. A group that does not exist has
        committed nothing. Errors by group: GroupAuthorizationError and others.
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
        """Commit offsets for a group that has no members; makes the group if there is none.

        Errors by partition: UnknownMemberIdError if it has members, UnknownTopicOrPartitionError and others.
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
        """Make a group that has no members read on elsewhere: `OffsetReset.earliest()`, `.to_time(...)` and others.

        `partitions` are those meant, or topics with all of theirs; None is all that the group has committed for. With
        `dry_run` it tells what would be, and changes nothing. An offset that does not exist becomes the nearest one.
        Errors by partition: UnknownTopicOrPartitionError, IllegalStateError for a shift of what was not committed.

        Raises:
            GroupNotEmptyError: the group has members; nothing was changed.
            GroupIdNotFoundError: the group does not exist, and no partitions are named; with them it is created.
            IllegalStateError: the group has committed nothing, and no partitions are named.
        """
        deadline = self._core.deadline("reset_group_offsets", timeout)
        return self._run(offset_resets.reset_group_offsets(self._core, group, to, partitions, dry_run, deadline))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, None]:
        """Forget what a group committed for partitions of topics that none of its members subscribes to.

        Errors by partition: GroupSubscribedToTopicError, GroupIdNotFoundError, UnknownTopicOrPartitionError.
        """
        deadline = self._core.deadline("delete_group_offsets", timeout)
        return self._run(group_offsets.delete_group_offsets(self._core, group, partitions, deadline))

    def group_lag(
        self, names: str | Iterable[str], *, isolation_level: str = "read_uncommitted", timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, PartitionLag]]:
        """How far behind groups are, by group and partition: of all that they have committed for or that members read.

        With `isolation_level="read_committed"` the end is the last stable offset. Errors by group:
        GroupIdNotFoundError and others.
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
        """The transactional ids of all brokers; only those in some states, or of some producer ids, if these are given.

        With `min_duration` only those whose transaction has been open for longer than so many seconds (KIP-994); with
        `transactional_id_pattern` only those that match, as a whole, a regular expression in RE2's syntax (KIP-1152).
        Errors by broker, as CoordinatorLoadInProgressError of one that does not know its transactional ids yet.
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
        """Transactional ids with their state, producer and epoch, and what their open transaction has written to.

        Errors by transactional id: TransactionalIdNotFoundError, TransactionalIdAuthorizationError.
        """
        deadline = self._core.deadline("describe_transactions", timeout)
        return self._run(transactions.describe_transactions(self._core, transactional_ids, deadline))

    def complete_transaction(
        self, prepared: PreparedTransaction, *, commit: bool = True, timeout: float | None = None
    ) -> None:
        """Commit or abort a transaction that a producer, most likely in another process, has prepared.

        To repeat a call with the same answer is harmless. Nothing tells the producer. The transaction's timeout runs
        on until this call, and a producer that calls init_transactions with the same transactional id ends it too:
        both abort it.

        Raises:
            InvalidTxnStateError: it has ended the other way, or can no longer be ended; the text says which.
            ProducerFencedError: its transactional id was used again, or its timeout passed.
            InvalidPidMappingError: its transactional id has expired.
        """
        deadline = self._core.deadline("complete_transaction", timeout)
        return self._run(prepared_transactions.complete_transaction(self._core, prepared, commit, deadline))

    def fence_producers(
        self, transactional_ids: str | Iterable[str], *, timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Keep the producers of transactional ids from going on, and abort what they have open.

        Their next call raises ProducerFencedError; one that starts anew works. An id that nobody used is made known.
        """
        deadline = self._core.deadline("fence_producers", timeout)
        return self._run(transactions.fence_producers(self._core, transactional_ids, deadline))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Who has written to partitions of late, by the leader's account or that of another replica's broker.

        Errors by partition: UnknownTopicOrPartitionError, NotLeaderOrFollowerError of a broker without the replica.
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
        """Open transactions that nobody will end (KIP-664), in some topics or all, or on one broker.

        They keep read_committed consumers from reading on. `max_transaction_timeout` is the longest that a transaction
        of the cluster may stay open, in seconds: the brokers' transaction.max.timeout.ms.
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
        """Abort a hanging transaction in one partition, without its coordinator; one that does not hang loses records.

        It is named by where it begins, as `find_hanging_transactions` tells, or by producer id and epoch.

        Raises:
            IllegalStateError: no open transaction begins at that offset.
            InvalidProducerEpochError: the producer has a newer epoch in the partition.
            TransactionCoordinatorFencedError: the partition has had a marker with a higher coordinator epoch.
            ClusterAuthorizationError: it takes permission to alter the cluster.
        """
        deadline = self._core.deadline("abort_transaction", timeout)
        return self._run(
            producers.abort_transaction(
                self._core, partition, start_offset, producer_id, producer_epoch, coordinator_epoch, deadline
            )
        )

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        deadline = self._core.deadline("describe_cluster", timeout)
        return self._run(cluster.describe_cluster(self._core, deadline))

    def health(self) -> ClientHealth:
        """Return whether any broker is reachable, and the last error of each that is not.

        From any thread; asks no broker.
        """
        return self._core.health()

    def metrics(self) -> MetricValues:
        """What the client counted so far, by Kafka's names."""
        return self._core.engine.metrics.snapshot()

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
