"""The blocking admin client. Its methods are in `kclient.admin.methods`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Never, Self, Unpack

from kclient._help import documents_options
from kclient._misuse import refuse_positional
from kclient.admin.core import AdminCore
from kclient.admin.methods.cluster import ClusterMethods
from kclient.admin.methods.configs import ConfigMethods
from kclient.admin.methods.groups import GroupMethods
from kclient.admin.methods.replicas import ReplicaMethods
from kclient.admin.methods.security import SecurityMethods
from kclient.admin.methods.topics import TopicMethods
from kclient.admin.methods.transactions import TransactionMethods
from kclient.config import AdminConfig
from kclient.options import AdminOptions


@documents_options(AdminConfig)
class Admin(
    TopicMethods,
    ReplicaMethods,
    ConfigMethods,
    GroupMethods,
    TransactionMethods,
    ClusterMethods,
    SecurityMethods,
):
    """An admin client for topics, replicas, settings, groups, transactions, the cluster and security.

    Threads may share it.


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

    def close(self, timeout: float | None = None) -> None:
        """Close all connections; calls in progress raise ClosedError.

        Parameters:
            timeout: seconds; None is the option close_timeout_ms.
        """
        self._core.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
