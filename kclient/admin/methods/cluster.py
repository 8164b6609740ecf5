"""The methods of the admin clients for the cluster as a whole and for the settings of its resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.admin import cluster, configs
from kclient.admin.cluster import ClusterDescription
from kclient.admin.configs import AlterConfig, ConfigEntry, ConfigResource
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by


class ClusterMethods(BlockingMethods):
    """The blocking methods."""

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

    def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        """Return the cluster id, the controller and the brokers."""
        deadline = self._core.deadline("describe_cluster", timeout)
        return self._run(cluster.describe_cluster(self._core, deadline))


@documented_by(ClusterMethods)
class AsyncClusterMethods(AsyncMethods):
    """The same methods for asyncio and trio."""

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

    async def describe_cluster(self, *, timeout: float | None = None) -> ClusterDescription:
        deadline = self._core.deadline("describe_cluster", timeout)
        return await self._run(cluster.describe_cluster(self._core, deadline))
