"""The admin client for asyncio and trio. Its methods are in `kclient.admin.methods`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Never, Self, Unpack

import anyio.to_thread

from kclient._help import documents_options
from kclient._misuse import refuse_positional
from kclient.admin.core import AdminCore
from kclient.admin.methods.cluster import AsyncClusterMethods
from kclient.admin.methods.configs import AsyncConfigMethods
from kclient.admin.methods.groups import AsyncGroupMethods
from kclient.admin.methods.replicas import AsyncReplicaMethods
from kclient.admin.methods.security import AsyncSecurityMethods
from kclient.admin.methods.topics import AsyncTopicMethods
from kclient.admin.methods.transactions import AsyncTransactionMethods
from kclient.config import AdminConfig
from kclient.net.waiting import LoopBridge
from kclient.options import AdminOptions


@documents_options(AdminConfig)
class AsyncAdmin(
    AsyncTopicMethods,
    AsyncReplicaMethods,
    AsyncConfigMethods,
    AsyncGroupMethods,
    AsyncTransactionMethods,
    AsyncClusterMethods,
    AsyncSecurityMethods,
):
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
        self._core = AdminCore(AdminConfig.from_options(options), self._bridge)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, Any] | str | os.PathLike[str], **options: Unpack[AdminOptions]
    ) -> Self:
        """Return a client configured with Kafka's dotted option names; see `Admin.from_properties`."""
        made = cls.__new__(cls)
        made._bridge = LoopBridge()
        made._core = AdminCore(AdminConfig.from_properties(properties, **options), made._bridge)
        return made

    async def close(self, timeout: float | None = None) -> None:
        """Close all connections; calls in progress raise ClosedError.

        Parameters:
            timeout: seconds; None is the option close_timeout_ms.
        """
        await anyio.to_thread.run_sync(self._core.close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
