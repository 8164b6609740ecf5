"""The cluster as a whole: its id, controller and brokers. Not implemented: features and the quorum."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kclient.admin.core import AdminCore
from kclient.errors import UnsupportedVersionError, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kclient.types import Node


class ClusterDescription(msgspec.Struct, frozen=True):
    """A cluster: its id, the controller (None without one), and the brokers by id."""

    cluster_id: str | None
    controller_id: int | None
    brokers: Mapping[int, Node]


def describe_cluster(core: AdminCore, deadline: Deadline) -> Operation[ClusterDescription]:
    """Send DescribeCluster (KIP-700) if the broker supports it, otherwise Metadata."""
    try:
        answer: DescribeClusterResponse = yield from core.request_until_answered(
            ANY_NODE, DescribeClusterRequest, lambda version: DescribeClusterRequest(), deadline
        )
    except UnsupportedVersionError:
        metadata = yield from core.ask_metadata([], deadline)
        brokers = {node.node_id: Node(node.node_id, node.host, node.port, node.rack) for node in metadata.brokers}
        return _described(metadata.cluster_id, metadata.controller_id, brokers)
    raise_for_code(answer.error_code, answer.error_message)
    brokers = {node.broker_id: Node(node.broker_id, node.host, node.port, node.rack) for node in answer.brokers}
    return _described(answer.cluster_id, answer.controller_id, brokers)


def _described(cluster_id: str | None, controller_id: int, brokers: dict[int, Node]) -> ClusterDescription:
    return ClusterDescription(cluster_id, controller_id if controller_id >= 0 else None, dict(sorted(brokers.items())))
