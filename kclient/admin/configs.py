"""Settings of topics and brokers: describe them with their sources, change them one by one (KIP-339).

The settings of a broker are requested from that broker; all others from any. Not implemented: client quotas and
credentials, which have APIs of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

import msgspec

from kclient.admin.arguments import instance, mapping, several
from kclient.admin.core import AdminCore, Outcomes
from kclient.errors import ConfigError, KafkaError, error_from_code
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from kclient.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kclient.security.secret import MASK, shown

ConfigValue = str | int | float | bool
"""The types of a setting's value; on the wire it is text: 3 is "3" and True is "true"."""


class ResourceType(IntEnum):
    """The kind of a resource that has settings, by Kafka's number."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A topic, a broker (its id as text; "" is the default of all brokers) or a group."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int | None = None) -> ConfigResource:
        """Return the resource of a broker's own settings; without an id the defaults of all brokers."""
        return cls(ResourceType.BROKER, "" if node_id is None else str(node_id))

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or '(default)'}"


class ConfigSource(Enum):
    """The source of a setting's value, in descending order of precedence."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigType(Enum):
    """The type of a setting's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSynonym(msgspec.Struct, frozen=True):
    """A source that could also have provided the value, with lower precedence."""

    name: str
    value: str | None
    source: ConfigSource

    def __repr__(self) -> str:
        return f"ConfigSynonym({self.name}={shown(self.name, self.value)}, {self.source.name})"


class ConfigEntry(msgspec.Struct, frozen=True):
    """One setting; the value of a sensitive one is None."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.UNKNOWN
    is_read_only: bool = False
    is_sensitive: bool = False
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source is ConfigSource.DEFAULT_CONFIG

    def __repr__(self) -> str:
        value = MASK if self.is_sensitive else shown(self.name, self.value)
        return f"ConfigEntry({self.name}={value}, {self.source.name})"


class AlterConfig(NamedTuple):
    """One change of one setting, made by `set`, `delete`, `append` or `subtract`."""

    name: str
    operation: int
    value: ConfigValue | None = None

    @classmethod
    def set(cls, name: str, value: ConfigValue) -> AlterConfig:
        return cls(name, 0, value)

    @classmethod
    def delete(cls, name: str) -> AlterConfig:
        """Return a change that restores the default."""
        return cls(name, 1)

    @classmethod
    def append(cls, name: str, value: ConfigValue) -> AlterConfig:
        """Return a change that adds elements to a list."""
        return cls(name, 2, value)

    @classmethod
    def subtract(cls, name: str, value: ConfigValue) -> AlterConfig:
        """Return a change that removes elements from a list."""
        return cls(name, 3, value)

    def __repr__(self) -> str:
        value = shown(self.name, self.value)
        return f"AlterConfig(name={self.name!r}, operation={self.operation}, value={value})"


def config_text(name: str, value: ConfigValue | None) -> str | None:
    """Return the value of a setting as Kafka writes it; None for None.

    Raises:
        ConfigError: the type is not supported.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise ConfigError(f"the value of {name} must be a str, a number or a bool, not {shown(name, value)}")


def config_source(number: int) -> ConfigSource:
    """Return a source by its number on the wire; UNKNOWN for a number of a later version."""
    return ConfigSource(number) if 0 <= number < len(ConfigSource) else ConfigSource.UNKNOWN


def config_type(number: int) -> ConfigType:
    """Return a type by its number on the wire; UNKNOWN for a number of a later version."""
    return ConfigType(number) if 0 <= number < len(ConfigType) else ConfigType.UNKNOWN


def describe_configs(
    core: AdminCore,
    resources: ConfigResource | Iterable[ConfigResource],
    include_documentation: bool,
    deadline: Deadline,
) -> Operation[dict[ConfigResource, dict[str, ConfigEntry]]]:
    def ask(node: int, asked: list[ConfigResource]) -> Operation[Outcomes[ConfigResource, dict[str, ConfigEntry]]]:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=resource.type, resource_name=resource.name, configuration_keys=None
                )
                for resource in asked
            ],
            include_synonyms=True,
        )

        def build(version: int) -> DescribeConfigsRequest:
            # Before version 3 documentation cannot be requested, and asking would be an error.
            request.include_documentation = include_documentation and version >= 3
            return request

        answer: DescribeConfigsResponse = yield from core.request_until_answered(
            node, DescribeConfigsRequest, build, deadline
        )
        return {_resource(result.resource_type, result.resource_name): _entries(result) for result in answer.results}

    def attempt(pending: list[ConfigResource]) -> Operation[Outcomes[ConfigResource, dict[str, ConfigEntry]]]:
        by_node = _by_node(pending)
        return (yield from core.gather({node: ask(node, asked) for node, asked in by_node.items()}, by_node))

    return (yield from core.keyed(several(resources, ConfigResource, deadline.name), attempt, deadline))


def incremental_alter_configs(
    core: AdminCore,
    changes: Mapping[ConfigResource, AlterConfig | Iterable[AlterConfig]],
    validate_only: bool,
    deadline: Deadline,
) -> Operation[dict[ConfigResource, None]]:
    wanted = mapping(
        changes,
        lambda resource, what: instance(resource, ConfigResource, what),
        lambda each, what: several(each, AlterConfig, what),
        deadline.name,
    )

    def ask(node: int, asked: list[ConfigResource]) -> Operation[Outcomes[ConfigResource, None]]:
        request = IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsRequest.AlterConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        IncrementalAlterConfigsRequest.AlterableConfig(
                            name=change.name,
                            config_operation=change.operation,
                            value=config_text(change.name, change.value),
                        )
                        for change in wanted[resource]
                    ],
                )
                for resource in asked
            ],
            validate_only=validate_only,
        )
        answer: IncrementalAlterConfigsResponse = yield from core.request_until_answered(
            node, IncrementalAlterConfigsRequest, lambda version: request, deadline
        )
        return {
            _resource(result.resource_type, result.resource_name): _failure(result.error_code, result.error_message)
            for result in answer.responses
        }

    def attempt(pending: list[ConfigResource]) -> Operation[Outcomes[ConfigResource, None]]:
        by_node = _by_node(pending)
        return (yield from core.gather({node: ask(node, asked) for node, asked in by_node.items()}, by_node))

    return (yield from core.keyed(wanted, attempt, deadline))


def _by_node(resources: Iterable[ConfigResource]) -> dict[int, list[ConfigResource]]:
    """Group the resources by the broker to ask: brokers for their own settings, any broker for the rest."""
    by_node: dict[int, list[ConfigResource]] = {}
    for resource in resources:
        own = resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name
        if own and not resource.name.isdecimal():
            raise ConfigError(f"a broker is identified by its number, not {resource.name!r}")
        by_node.setdefault(int(resource.name) if own else ANY_NODE, []).append(resource)
    return by_node


def _resource(kind: int, name: str) -> ConfigResource:
    return ConfigResource(ResourceType(kind), name)


def _failure(code: int, message: str | None) -> KafkaError | None:
    return error_from_code(code, message) if code else None


def _entries(result: DescribeConfigsResponse.DescribeConfigsResult) -> dict[str, ConfigEntry] | KafkaError:
    if result.error_code:
        return error_from_code(result.error_code, result.error_message)
    return {
        entry.name: ConfigEntry(
            entry.name,
            entry.value,
            source=config_source(entry.config_source),
            is_read_only=entry.read_only,
            is_sensitive=entry.is_sensitive,
            type=config_type(entry.config_type),
            synonyms=tuple(
                ConfigSynonym(synonym.name, synonym.value, config_source(synonym.source)) for synonym in entry.synonyms
            ),
            documentation=entry.documentation,
        )
        for entry in sorted(result.configs, key=lambda entry: entry.name)
    }
