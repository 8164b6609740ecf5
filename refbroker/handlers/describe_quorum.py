"""DescribeQuorum (55), versions 0 to 2: returns the leader of the metadata log, and the progress of its voters.

This broker is the only voter and the leader; there are no observers. A request for anything except partition 0 of
`__cluster_metadata` gets UNKNOWN_TOPIC_OR_PARTITION for each of its partitions. The directory of the voter is known
only with kraft.version 1, and zero before. Source: KIP-595, KIP-836, KIP-853.

Permissions: DESCRIBE on the cluster.
"""

from __future__ import annotations

from typing import Any

from kclient.errors import UnknownTopicOrPartitionError
from kclient.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from refbroker.handlers.context import Context
from refbroker.handlers.services import QuorumServices
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import DESCRIBE_CLUSTER

_FIRST_WITH_NODES = _FIRST_WITH_DIRECTORIES = 2


def handle(context: Context[QuorumServices], request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Answer a DescribeQuorum request."""
    refusal = context.access.refusal(DESCRIBE_CLUSTER)
    if refusal is not None:
        return DescribeQuorumResponse(error_code=code_of(refusal))
    asked = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics]
    if asked != [(METADATA_TOPIC, [0])]:
        return DescribeQuorumResponse(
            topics=[_topic(name, [_unknown(number) for number in found]) for name, found in asked]
        )
    response = DescribeQuorumResponse(topics=[_topic(METADATA_TOPIC, [_quorum(context)])])
    if context.version >= _FIRST_WITH_NODES:
        response.nodes = [_node(context)]
    return response


def _topic(name: str, partitions: list[Any]) -> DescribeQuorumResponse.TopicData:
    return DescribeQuorumResponse.TopicData(topic_name=name, partitions=partitions)


def _unknown(partition: int) -> DescribeQuorumResponse.PartitionData:
    error = UnknownTopicOrPartitionError
    return DescribeQuorumResponse.PartitionData(
        partition_index=partition, error_code=error.code, error_message=error().message
    )


def _quorum(context: Context[QuorumServices]) -> DescribeQuorumResponse.PartitionData:
    controller, node = context.broker.controller, context.broker.node_id
    now = context.broker.clock()
    leader = DescribeQuorumResponse.ReplicaState(
        replica_id=node, log_end_offset=controller.end_offset, last_fetch_timestamp=now, last_caught_up_timestamp=now
    )
    voters = controller.voters.voters
    if voters is not None and context.version >= _FIRST_WITH_DIRECTORIES:
        leader.replica_directory_id = voters.voters[0].voter_directory_id
    return DescribeQuorumResponse.PartitionData(
        leader_id=node,
        leader_epoch=controller.epoch,
        high_watermark=controller.high_watermark,
        current_voters=[leader],
    )


def _node(context: Context[QuorumServices]) -> DescribeQuorumResponse.Node:
    registered = context.broker.image.brokers.get(context.broker.node_id)
    endpoints = {} if registered is None else registered.endpoints
    return DescribeQuorumResponse.Node(
        node_id=context.broker.node_id,
        listeners=[
            DescribeQuorumResponse.Listener(name=name, host=host, port=port) for name, (host, port) in endpoints.items()
        ],
    )
