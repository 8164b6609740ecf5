"""The methods of the admin clients for replicas: reassignments, elections of leaders, log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kclient.admin import elections, log_dirs, reassignments
from kclient.admin.elections import ElectionType
from kclient.admin.log_dirs import LogDirDescription, ReplicaLogDirInfo, TopicPartitionReplica
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by
from kclient.admin.reassignments import PartitionReassignment
from kclient.types import TopicPartition


class ReplicaMethods(BlockingMethods):
    """The blocking methods."""

    def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        """Start to move partitions to other brokers, or cancel moves that are in progress (KIP-455).

        The call returns when the controller has accepted the moves; `list_partition_reassignments` shows their
        progress. A new target replaces that of a move in progress.

        Parameters:
            targets: by partition the ids of the brokers that shall have a replica, the preferred leader first; None
                cancels the move of the partition.
            allow_replication_factor_change: whether a partition may have another number of replicas than before; False
                requires Apache Kafka 4.1 (KIP-860).
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by partition: InvalidReplicaAssignmentError for a broker that does not exist,
        NoReassignmentInProgressError for one that cannot be cancelled, InvalidReplicationFactorError,
        UnknownTopicOrPartitionError.

        Raises:
            ClusterAuthorizationError: the client needs ALTER on the cluster.
            UnsupportedVersionError: the brokers cannot keep the replication factor.
        """
        deadline = self._core.deadline("alter_partition_reassignments", timeout)
        return self._run(
            reassignments.alter_partition_reassignments(self._core, targets, allow_replication_factor_change, deadline)
        )

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress, by partition (KIP-455).

        Parameters:
            partitions: only these; None for all. A partition that is not being moved, or does not exist, is absent from
                the result.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            ClusterAuthorizationError: the client needs DESCRIBE on the cluster.
        """
        deadline = self._core.deadline("list_partition_reassignments", timeout)
        return self._run(reassignments.list_partition_reassignments(self._core, partitions, deadline))

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect the leaders of partitions: the preferred replicas, or for partitions without one any (KIP-460).

        An unclean election may make a replica the leader that lacks acknowledged records, which are lost then.

        Parameters:
            election_type: PREFERRED or UNCLEAN.
            partitions: the partitions; None for all that need such an election.
            timeout: seconds; None is the option default_api_timeout_ms.

        Returns:
            By partition whether a leader was elected: False if the partition had such a leader already, where the Java
            client has an ElectionNotNeededException. With None, such partitions are absent.

        Errors by partition: PreferredLeaderNotAvailableError, EligibleLeadersNotAvailableError,
        UnknownTopicOrPartitionError. The brokers that could be elected are not alive, so the call does not repeat.

        Raises:
            ClusterAuthorizationError: the client needs ALTER on the cluster.
            UnsupportedVersionError: brokers before Apache Kafka 2.4 cannot hold unclean elections.
        """
        deadline = self._core.deadline("elect_leaders", timeout)
        return self._run(elections.elect_leaders(self._core, election_type, partitions, deadline))

    def describe_log_dirs(
        self, brokers: int | Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Return the log directories of brokers: by broker and path, with the size and lag of each replica (KIP-113).

        Parameters:
            brokers: the ids of the brokers; None for all that are alive.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by broker: BrokerNotAvailableError for one that is not there, ClusterAuthorizationError without DESCRIBE
        on the cluster. A directory that is offline has an `error` in its description.
        """
        deadline = self._core.deadline("describe_log_dirs", timeout)
        return self._run(log_dirs.describe_log_dirs(self._core, brokers, deadline))

    def describe_replica_log_dirs(
        self, replicas: TopicPartitionReplica | Iterable[TopicPartitionReplica], *, timeout: float | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
        """Return the directory of each replica, and the one that it is being moved to (KIP-113).

        Parameters:
            replicas: partitions and the brokers that have them. A broker without the replica has no directory for it.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by replica: BrokerNotAvailableError, ClusterAuthorizationError.
        """
        deadline = self._core.deadline("describe_replica_log_dirs", timeout)
        return self._run(log_dirs.describe_replica_log_dirs(self._core, replicas, deadline))

    def alter_replica_log_dirs(
        self, assignment: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> dict[TopicPartitionReplica, None]:
        """Start to move replicas to other directories of their brokers (KIP-113).

        The call returns when the brokers have begun to copy; `describe_replica_log_dirs` shows the progress. Moving a
        replica to the directory in which it is cancels its move.

        Parameters:
            assignment: the absolute path of the directory, as the broker names it, by replica.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by replica: LogDirNotFoundError, KafkaStorageError for a directory that is offline,
        ReplicaNotAvailableError if the broker does not have the replica (it will create the replica in this directory
        if it gets it), UnknownTopicOrPartitionError, BrokerNotAvailableError, ClusterAuthorizationError.
        """
        deadline = self._core.deadline("alter_replica_log_dirs", timeout)
        return self._run(log_dirs.alter_replica_log_dirs(self._core, assignment, deadline))


@documented_by(ReplicaMethods)
class AsyncReplicaMethods(AsyncMethods):
    """The same methods for asyncio and trio."""

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
    ) -> dict[TopicPartition, None]:
        deadline = self._core.deadline("alter_partition_reassignments", timeout)
        return await self._run(
            reassignments.alter_partition_reassignments(self._core, targets, allow_replication_factor_change, deadline)
        )

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        deadline = self._core.deadline("list_partition_reassignments", timeout)
        return await self._run(reassignments.list_partition_reassignments(self._core, partitions, deadline))

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
    ) -> dict[TopicPartition, bool]:
        deadline = self._core.deadline("elect_leaders", timeout)
        return await self._run(elections.elect_leaders(self._core, election_type, partitions, deadline))

    async def describe_log_dirs(
        self, brokers: int | Iterable[int] | None = None, *, timeout: float | None = None
    ) -> dict[int, dict[str, LogDirDescription]]:
        deadline = self._core.deadline("describe_log_dirs", timeout)
        return await self._run(log_dirs.describe_log_dirs(self._core, brokers, deadline))

    async def describe_replica_log_dirs(
        self, replicas: TopicPartitionReplica | Iterable[TopicPartitionReplica], *, timeout: float | None = None
    ) -> dict[TopicPartitionReplica, ReplicaLogDirInfo]:
        deadline = self._core.deadline("describe_replica_log_dirs", timeout)
        return await self._run(log_dirs.describe_replica_log_dirs(self._core, replicas, deadline))

    async def alter_replica_log_dirs(
        self, assignment: Mapping[TopicPartitionReplica, str], *, timeout: float | None = None
    ) -> dict[TopicPartitionReplica, None]:
        deadline = self._core.deadline("alter_replica_log_dirs", timeout)
        return await self._run(log_dirs.alter_replica_log_dirs(self._core, assignment, deadline))
