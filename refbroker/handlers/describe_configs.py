"""DescribeConfigs (32), versions 1 to 4: returns settings with their sources and synonyms.

For topics, groups and client metrics subscriptions, the response has every setting of their kind, set or not. For a
broker, it has every broker setting and other settings that were set on it; those that cannot be changed while it runs
are read-only. For the broker "", it has the settings that were set for all brokers; for loggers, a level each. Values
of passwords, and of unknown settings, are omitted. A kind of resource that Kafka does not have fails the whole request.
Elsewhere: sources of values (`effective`).

Permissions: DESCRIBE_CONFIGS on the topic or the group, otherwise on the cluster.
"""

from __future__ import annotations

from collections.abc import Collection

from kclient.errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError
from kclient.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from refbroker.controller.topics import check_name
from refbroker.handlers.config_permissions import describing
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices
from refbroker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from refbroker.runtime import loggers
from refbroker.runtime.error_codes import code_of
from refbroker.settings.documentation import documentation
from refbroker.settings.effective import (
    ConfigValue,
    Source,
    broker_values,
    client_metrics_values,
    cluster_default_values,
    group_values,
    topic_values,
)

Resource = DescribeConfigsRequest.DescribeConfigsResource
Result = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult

_UNKNOWN_KIND = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
KINDS = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


def handle(context: Context[MetadataServices], request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer a DescribeConfigs request."""
    all_known = all(resource.resource_type in KINDS for resource in request.resources)
    results = []
    for resource in request.resources:
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            if not all_known:
                raise InvalidRequestError(_UNKNOWN_KIND)
            refusal = context.access.refusal(*describing(resource.resource_type, resource.resource_name))
            if refusal is not None:
                raise refusal
            result.configs = _entries(context, request, resource)
        except UnknownTopicOrPartitionError as error:
            # Kafka sends no message with this error.
            result.error_code = error.code
        except KafkaError as error:
            result.error_code, result.error_message = code_of(error), error.message
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _entries(context: Context[MetadataServices], request: DescribeConfigsRequest, resource: Resource) -> list[Entry]:
    kind, name, wanted = resource.resource_type, resource.resource_name, resource.configuration_keys
    if kind == BROKER_LOGGER_RESOURCE:
        return _levels(context, name, wanted)
    return [
        _entry(request, value, kind)
        for value in _values(context, kind, name)
        if not wanted or value.setting.name in wanted
    ]


def _levels(context: Context[MetadataServices], name: str, wanted: Collection[str] | None) -> list[Entry]:
    if not name:
        raise InvalidRequestError("Broker id must not be empty")
    if _broker_number(name) != context.broker.node_id:
        raise InvalidRequestError(f"Unexpected broker id, expected {context.broker.node_id} but received {name}")
    return [
        Entry(name=logger, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER)
        for logger, level in loggers.levels().items()
        if not wanted or logger in wanted
    ]


def _values(context: Context[MetadataServices], kind: int, name: str) -> Collection[ConfigValue]:
    broker = context.broker
    own = broker.image.config(kind, name)
    layers = broker.config.layers
    if kind == TOPIC_RESOURCE:
        check_name(name)
        if name not in broker.image.topics:
            raise UnknownTopicOrPartitionError(topic=name)
        return topic_values(own, layers).values()
    if kind == BROKER_RESOURCE:
        if not name:
            return cluster_default_values(layers).values()
        if _broker_number(name) != broker.node_id:
            raise InvalidRequestError(
                f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
            )
        return broker_values(layers).values()
    if kind == CLIENT_METRICS_RESOURCE:
        if not name:
            raise InvalidRequestError("Client metrics subscription name must not be empty")
        return client_metrics_values(own).values()
    if not name:
        raise InvalidRequestError("Group name must not be empty")
    return group_values(own, layers).values()


def _broker_number(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise InvalidRequestError(f"Broker id must be an integer, but it is: {name}") from None


def _entry(request: DescribeConfigsRequest, found: ConfigValue, kind: int) -> Entry:
    setting = found.setting
    entry = Entry(
        name=setting.name,
        value=None if setting.sensitive else found.value,
        read_only=kind == BROKER_RESOURCE and not setting.dynamic,
        config_source=found.source,
        is_sensitive=setting.sensitive,
        config_type=setting.type,
        documentation=documentation(setting, topic=kind == TOPIC_RESOURCE) if request.include_documentation else None,
    )
    if request.include_synonyms:
        entry.synonyms = [
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=one.name, value=None if setting.sensitive else one.value, source=one.source
            )
            for one in found.synonyms
        ]
    return entry
