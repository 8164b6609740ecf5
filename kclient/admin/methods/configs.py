"""The methods of the admin clients for the settings of topics, brokers and other resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kclient.admin import config_resources, configs
from kclient.admin.configs import AlterConfig, ConfigEntry, ConfigResource, ResourceType
from kclient.admin.methods.base import AsyncMethods, BlockingMethods, documented_by


class ConfigMethods(BlockingMethods):
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

    def list_config_resources(
        self, types: ResourceType | Iterable[ResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        """Return the resources that have settings, or could have (KIP-1142).

        Topics and brokers are listed whether or not a setting of theirs was changed, groups and client metrics only if
        one was.

        Parameters:
            types: only resources of these types; all if empty.
            timeout: seconds; None is the option default_api_timeout_ms.

        Raises:
            ClusterAuthorizationError: the client needs DESCRIBE_CONFIGS on the cluster.
            UnsupportedVersionError: brokers before Apache Kafka 4.1 list client metrics only.
        """
        deadline = self._core.deadline("list_config_resources", timeout)
        return self._run(config_resources.list_config_resources(self._core, types, deadline))

    def list_client_metrics_resources(self, *, timeout: float | None = None) -> list[str]:
        """Return the names of the resources that configure which metrics clients send to brokers (KIP-714).

        Raises:
            ClusterAuthorizationError: the client needs DESCRIBE_CONFIGS on the cluster.
            UnsupportedVersionError: the brokers are older than Apache Kafka 3.7.
        """
        deadline = self._core.deadline("list_client_metrics_resources", timeout)
        return self._run(config_resources.list_client_metrics_resources(self._core, deadline))


@documented_by(ConfigMethods)
class AsyncConfigMethods(AsyncMethods):
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

    async def list_config_resources(
        self, types: ResourceType | Iterable[ResourceType] = (), *, timeout: float | None = None
    ) -> list[ConfigResource]:
        deadline = self._core.deadline("list_config_resources", timeout)
        return await self._run(config_resources.list_config_resources(self._core, types, deadline))

    async def list_client_metrics_resources(self, *, timeout: float | None = None) -> list[str]:
        deadline = self._core.deadline("list_client_metrics_resources", timeout)
        return await self._run(config_resources.list_client_metrics_resources(self._core, deadline))
