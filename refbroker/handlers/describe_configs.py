"""DescribeConfigs (32), versions 1 to 4: the settings of topics and brokers, with sources and synonyms.

Topics have every topic setting; a broker every broker setting, of which those that cannot be changed while
it runs are read-only; the broker "" only what was set for all brokers. Values of passwords are not
given. Left out: the other kinds of resources (groups, client metrics, loggers), which are
INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Iterable

from kclient.errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError
from kclient.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from refbroker.dispatch import Context
from refbroker.handlers.answers import code_of
from refbroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from refbroker.metadata.topics import check_name
from refbroker.settings.documentation import documentation
from refbroker.settings.effective import ConfigValue, Source, broker_values, topic_values

Result = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult


def handle(context: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer a DescribeConfigs request."""
    results = []
    for resource in request.resources:
        result = Result(error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            values = _values(context, resource.resource_type, resource.resource_name)
        except KafkaError as error:
            result.error_code, result.error_message = code_of(error), error.message
        else:
            wanted = resource.configuration_keys
            is_topic = resource.resource_type == TOPIC_RESOURCE
            result.configs = [
                _entry(request, value, is_topic)
                for value in values
                if wanted is None or not wanted or value.setting.name in wanted
            ]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _values(context: Context, resource_type: int, name: str) -> Iterable[ConfigValue]:
    broker = context.broker
    if resource_type == TOPIC_RESOURCE:
        check_name(name)
        if name not in broker.metadata.image.topics:
            raise UnknownTopicOrPartitionError(topic=name)
        own = broker.metadata.image.config(TOPIC_RESOURCE, name)
        return topic_values(own, broker.config.layers).values()
    if resource_type == BROKER_RESOURCE:
        values = broker_values(broker.config.layers).values()
        if not name:
            return [value for value in values if value.source is Source.DYNAMIC_DEFAULT_BROKER]
        if name != str(broker.node_id):
            raise InvalidRequestError(f"Unexpected broker id, expected {broker.node_id}, but received {name}")
        return values
    raise InvalidRequestError(f"Resources of type {resource_type} have no settings on this broker")


def _entry(request: DescribeConfigsRequest, value: ConfigValue, is_topic: bool) -> Entry:
    setting = value.setting
    entry = Entry(
        name=setting.name,
        value=None if setting.sensitive else value.value,
        read_only=not is_topic and not setting.dynamic,
        config_source=value.source,
        is_sensitive=setting.sensitive,
        config_type=setting.type,
        documentation=documentation(setting, topic=is_topic) if request.include_documentation else None,
    )
    if request.include_synonyms:
        entry.synonyms = [
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=one.name, value=None if setting.sensitive else one.value, source=one.source
            )
            for one in value.synonyms
        ]
    return entry
