"""The cluster as a whole: its id, controller and brokers, and the removal of a broker's registration.

Elsewhere: features (`features`) and the quorum of controllers (`quorum`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kclient.admin.arguments import number
from kclient.admin.core import AdminCore
from kclient.errors import UnsupportedVersionError, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kclient.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from kclient.types import Node

_FENCED_FROM = 2
"""The first version of DescribeCluster that can include fenced brokers (KIP-1073)."""


class ClusterDescription(msgspec.Struct, frozen=True):
    """A cluster: its id, the controller (None without one), and the brokers by id.

    With KRaft the controller is one of the brokers, chosen at random: any broker forwards changes to the active
    controller, whose id `Admin.describe_metadata_quorum()` returns.
    """

    cluster_id: str | None
    controller_id: int | None
    brokers: Mapping[int, Node]


def describe_cluster(
    core: AdminCore, include_fenced_brokers: bool, deadline: Deadline
) -> Operation[ClusterDescription]:
    """Send DescribeCluster (KIP-700) if the broker supports it, otherwise Metadata."""
    request = DescribeClusterRequest(include_fenced_brokers=include_fenced_brokers)
    try:
        answer: DescribeClusterResponse = yield from core.request_until_answered(
            ANY_NODE,
            DescribeClusterRequest,
            lambda version: request,
            deadline,
            _FENCED_FROM if include_fenced_brokers else None,
        )
    except UnsupportedVersionError as error:
        if include_fenced_brokers:
            text = f"{error.message}; brokers list fenced brokers since Apache Kafka 4.0"
            raise UnsupportedVersionError(text, broker=error.broker, api=error.api) from error
        metadata = yield from core.ask_metadata([], deadline)
        brokers = {node.node_id: Node(node.node_id, node.host, node.port, node.rack) for node in metadata.brokers}
        return _described(metadata.cluster_id, metadata.controller_id, brokers)
    raise_for_code(answer.error_code, answer.error_message)
    brokers = {
        node.broker_id: Node(node.broker_id, node.host, node.port, node.rack, node.is_fenced) for node in answer.brokers
    }
    return _described(answer.cluster_id, answer.controller_id, brokers)


def unregister_broker(core: AdminCore, broker_id: int, deadline: Deadline) -> Operation[None]:
    request = UnregisterBrokerRequest(broker_id=number(broker_id, f"{deadline.name}(broker_id=)"))

    def attempt() -> Operation[None]:
        answer: UnregisterBrokerResponse = yield from core.request(
            ANY_NODE, UnregisterBrokerRequest, lambda version: request, deadline
        )
        raise_for_code(answer.error_code, answer.error_message, api="UnregisterBroker")

    yield from core.retry(attempt, deadline)


def _described(cluster_id: str | None, controller_id: int, brokers: dict[int, Node]) -> ClusterDescription:
    return ClusterDescription(cluster_id, controller_id if controller_id >= 0 else None, dict(sorted(brokers.items())))
