"""Which resources have settings (KIP-714, KIP-1142). Elsewhere: the settings themselves (`configs`)."""

from __future__ import annotations

from collections.abc import Iterable

from kclient.admin.arguments import several
from kclient.admin.configs import ConfigResource, ResourceType
from kclient.admin.core import AdminCore
from kclient.errors import UnsupportedVersionError, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

_TYPES_FROM = 1
"""The first version with types; before it the API lists the resources of client metrics only."""


def list_config_resources(
    core: AdminCore, types: ResourceType | Iterable[ResourceType], deadline: Deadline
) -> Operation[list[ConfigResource]]:
    wanted = several(types, ResourceType, deadline.name)
    only_metrics = set(wanted) == {ResourceType.CLIENT_METRICS}
    kind = ListConfigResourcesRequest

    def build(version: int) -> ListConfigResourcesRequest:
        return kind(resource_types=[] if version < _TYPES_FROM else list(wanted))

    def attempt() -> Operation[ListConfigResourcesResponse]:
        answer: ListConfigResourcesResponse = yield from core.request(
            ANY_NODE, kind, build, deadline, None if only_metrics else _TYPES_FROM
        )
        raise_for_code(answer.error_code)
        return answer

    try:
        answer = yield from core.retry(attempt, deadline)
    except UnsupportedVersionError as error:
        text = f"{error.message}; brokers list all types of resources since Apache Kafka 4.1"
        raise UnsupportedVersionError(text, broker=error.broker, api=error.api) from error
    known = {member.value: member for member in ResourceType}
    found = (
        ConfigResource(known[each.resource_type], each.resource_name)
        for each in answer.config_resources
        if each.resource_type in known  # a later version may have more
    )
    return sorted(found)


def list_client_metrics_resources(core: AdminCore, deadline: Deadline) -> Operation[list[str]]:
    found = yield from list_config_resources(core, ResourceType.CLIENT_METRICS, deadline)
    return [resource.name for resource in found]
