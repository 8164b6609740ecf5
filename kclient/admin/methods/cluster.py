"""The methods of the admin clients for the cluster as a whole: brokers, features, the quorum of controllers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from kclient.admin import cluster, features, quorum
from kclient.admin.cluster import ClusterDescription
from kclient.admin.features import FeatureMetadata, FeatureUpdate
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by
from kclient.admin.quorum import QuorumInfo, RaftVoterEndpoint


class ClusterMethods(BlockingMethods):
    """The blocking methods."""

    def describe_cluster(
        self, *, include_fenced_brokers: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers (KIP-700).

        Parameters:
            include_fenced_brokers: whether to include registered brokers that are not alive (KIP-1073).
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            UnsupportedVersionError: brokers before Apache Kafka 4.0 do not list fenced brokers.
        """
        deadline = self._core.deadline("describe_cluster", timeout)
        return self._run(cluster.describe_cluster(self._core, include_fenced_brokers, deadline))

    def unregister_broker(self, broker_id: int, *, timeout: float | None = None) -> None:
        """Remove the registration of a broker that will not return (KIP-631).

        Its replicas stay assigned to it until they are reassigned. A broker that still runs registers again only after
        its restart.

        Parameters:
            broker_id: the id of the broker.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            BrokerIdNotRegisteredError: the controller knows no such broker.
            ClusterAuthorizationError: the client needs ALTER on the cluster.
            UnsupportedVersionError: the cluster does not use KRaft.
        """
        deadline = self._core.deadline("unregister_broker", timeout)
        self._run(cluster.unregister_broker(self._core, broker_id, deadline))

    def describe_features(self, *, node_id: int | None = None, timeout: float | None = None) -> FeatureMetadata:
        """Return the finalized features of the cluster, and those that a broker supports (KIP-584).

        Parameters:
            node_id: the broker to ask; None for any.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            BrokerNotAvailableError: there is no such broker.
        """
        deadline = self._core.deadline("describe_features", timeout)
        return self._run(features.describe_features(self._core, node_id, deadline))

    def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, None]:
        """Change the finalized levels of features; all of them take effect, or none (KIP-584, KIP-1022).

        Parameters:
            updates: the new levels by feature, such as `{"transaction.version": FeatureUpdate(2)}`.
            validate_only: whether to check the request only.
            timeout: seconds; None is the option default_api_timeout_ms.

        Errors by feature, only from brokers before Apache Kafka 4.0: those below.

        Raises:
            ConfigError: no feature is named.
            InvalidUpdateVersionError: a node does not support a level, or it depends on another feature.
            FeatureUpdateFailedError: the controller could not store the change.
            ClusterAuthorizationError: the client needs ALTER on the cluster.
            UnsupportedVersionError: brokers before Apache Kafka 3.3 cannot validate, or downgrade unsafely.
        """
        deadline = self._core.deadline("update_features", timeout)
        return self._run(features.update_features(self._core, updates, validate_only, deadline))

    def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        """Return the active controller, and how far the other controllers and the brokers have followed (KIP-836).

        Raises:
            ClusterAuthorizationError: the client needs DESCRIBE on the cluster.
            UnsupportedVersionError: the cluster does not use KRaft.
        """
        deadline = self._core.deadline("describe_metadata_quorum", timeout)
        return self._run(quorum.describe_metadata_quorum(self._core, deadline))

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: UUID,
        endpoints: RaftVoterEndpoint | Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Let a controller that follows as an observer vote (KIP-853); the cluster needs kraft.version 1.

        Parameters:
            voter_id: the id of the controller.
            directory_id: the id of its metadata directory, as `describe_metadata_quorum` shows it.
            endpoints: its addresses, one for each listener of controllers.
            cluster_id: the id of the cluster, to be sure that it is the right one; None is not checked.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            DuplicateVoterError: the controller votes already.
            InconsistentClusterIdError: the brokers belong to another cluster.
            RequestTimedOutError: the controller is too far behind, or another change of voters is in progress; the call
                repeats until its timeout.
            UnsupportedVersionError: the cluster has static voters: its kraft.version is 0.
            ClusterAuthorizationError: the client needs ALTER on the cluster.
        """
        deadline = self._core.deadline("add_raft_voter", timeout)
        self._run(quorum.add_raft_voter(self._core, voter_id, directory_id, endpoints, cluster_id, deadline))

    def remove_raft_voter(
        self, voter_id: int, directory_id: UUID, *, cluster_id: str | None = None, timeout: float | None = None
    ) -> None:
        """Let a controller no longer vote (KIP-853); the cluster needs kraft.version 1.

        Parameters:
            voter_id: the id of the controller, which may be the leader.
            directory_id: the id of its metadata directory, as `describe_metadata_quorum` shows it.
            cluster_id: the id of the cluster, to be sure that it is the right one; None is not checked.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            VoterNotFoundError: the controller does not vote, or not with this directory.
            InconsistentClusterIdError, UnsupportedVersionError, ClusterAuthorizationError: as for `add_raft_voter`.
        """
        deadline = self._core.deadline("remove_raft_voter", timeout)
        self._run(quorum.remove_raft_voter(self._core, voter_id, directory_id, cluster_id, deadline))


@documented_by(ClusterMethods)
class AsyncClusterMethods(AsyncMethods):
    """The same methods for asyncio and trio."""

    async def describe_cluster(
        self, *, include_fenced_brokers: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        deadline = self._core.deadline("describe_cluster", timeout)
        return await self._run(cluster.describe_cluster(self._core, include_fenced_brokers, deadline))

    async def unregister_broker(self, broker_id: int, *, timeout: float | None = None) -> None:
        deadline = self._core.deadline("unregister_broker", timeout)
        await self._run(cluster.unregister_broker(self._core, broker_id, deadline))

    async def describe_features(self, *, node_id: int | None = None, timeout: float | None = None) -> FeatureMetadata:
        deadline = self._core.deadline("describe_features", timeout)
        return await self._run(features.describe_features(self._core, node_id, deadline))

    async def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False, timeout: float | None = None
    ) -> dict[str, None]:
        deadline = self._core.deadline("update_features", timeout)
        return await self._run(features.update_features(self._core, updates, validate_only, deadline))

    async def describe_metadata_quorum(self, *, timeout: float | None = None) -> QuorumInfo:
        deadline = self._core.deadline("describe_metadata_quorum", timeout)
        return await self._run(quorum.describe_metadata_quorum(self._core, deadline))

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: UUID,
        endpoints: RaftVoterEndpoint | Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        deadline = self._core.deadline("add_raft_voter", timeout)
        await self._run(quorum.add_raft_voter(self._core, voter_id, directory_id, endpoints, cluster_id, deadline))

    async def remove_raft_voter(
        self, voter_id: int, directory_id: UUID, *, cluster_id: str | None = None, timeout: float | None = None
    ) -> None:
        deadline = self._core.deadline("remove_raft_voter", timeout)
        await self._run(quorum.remove_raft_voter(self._core, voter_id, directory_id, cluster_id, deadline))
