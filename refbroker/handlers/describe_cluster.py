"""DescribeCluster (60), versions 0 to 2: returns the cluster id, the controller and the brokers.

With version 1, a client can request the controllers instead, which a broker refuses (MISMATCHED_ENDPOINT_TYPE). From
version 2 on, fenced brokers are included on request.

Permissions: none; the permitted operations need DESCRIBE on the cluster, and are 0 without it.
"""

from __future__ import annotations

from kclient.errors import KafkaError, MismatchedEndpointTypeError, UnsupportedEndpointTypeError
from kclient.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from refbroker.handlers.answers import NOT_ASKED, cluster_operations, endpoint_of
from refbroker.handlers.context import Context
from refbroker.handlers.services import MetadataServices
from refbroker.runtime.error_codes import code_of

BROKERS, CONTROLLERS = 1, 2


def handle(context: Context[MetadataServices], request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer a DescribeCluster request."""
    if request.endpoint_type != BROKERS:
        error = _refusal(request.endpoint_type)
        return DescribeClusterResponse(error_code=code_of(error), error_message=error.message, endpoint_type=BROKERS)
    image = context.broker.image
    brokers = []
    for node, registration in image.brokers.items():
        if registration.fenced and not request.include_fenced_brokers:
            continue
        endpoint = endpoint_of(image, node, context.connection.listener)
        if endpoint is None:
            continue
        host, port = endpoint
        brokers.append(
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=node,
                host=host,
                port=port,
                rack=registration.rack,
                is_fenced=registration.fenced and context.version >= 2,
            )
        )
    return DescribeClusterResponse(
        cluster_id=context.broker.cluster_id,
        controller_id=context.broker.node_id,
        brokers=brokers,
        cluster_authorized_operations=cluster_operations(context.access)
        if request.include_cluster_authorized_operations
        else NOT_ASKED,
    )


def _refusal(endpoint_type: int) -> KafkaError:
    if endpoint_type == CONTROLLERS:
        return MismatchedEndpointTypeError(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    return UnsupportedEndpointTypeError(f"Unsupported endpoint type {endpoint_type}")
