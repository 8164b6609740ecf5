"""ListConfigResources (74), versions 0 and 1: returns the names of resources with settings (KIP-714, KIP-1142).

These are all topics, all live brokers and their loggers, and the groups and client metrics subscriptions for which
something was set. No types means all; version 0 has client metrics only. A type that Kafka does not have is
UNSUPPORTED_VERSION.

Permissions: DESCRIBE_CONFIGS on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

from kclient.errors import UnsupportedVersionError
from kclient.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices
from refbroker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
)
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_CLUSTER_CONFIGS

Resource = ListConfigResourcesResponse.ConfigResource

TYPES = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


def handle(context: Context[MetadataServices], request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """Answer a ListConfigResources request."""
    refusal = context.access.refusal(DESCRIBE_CLUSTER_CONFIGS)
    if refusal is not None:
        return ListConfigResourcesResponse(error_code=code_of(refusal))
    supported = TYPES if context.version >= 1 else (CLIENT_METRICS_RESOURCE,)
    wanted = request.resource_types or supported
    if not set(wanted) <= set(supported):
        return ListConfigResourcesResponse(error_code=UnsupportedVersionError.code)
    image = context.broker.image
    return ListConfigResourcesResponse(
        config_resources=[
            Resource(resource_name=name, resource_type=kind)
            for kind in supported
            if kind in wanted
            for name in _names(image, kind)
        ]
    )


def _names(image: ClusterImage, kind: int) -> Iterable[str]:
    if kind == TOPIC_RESOURCE:
        return image.topics
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(number) for number, broker in image.brokers.items() if not broker.fenced]
    return [name for kind_of, name in image.configs if kind_of == kind]
