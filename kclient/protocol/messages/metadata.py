"""Tells brokers, the controller, and topics with their partitions, leaders and replicas.

Any broker answers. No topics means none from version 1 on (null is all of them), all of them in
version 0. Topic ids came with version 10 (KIP-516), fetching by id with 12.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, between, ignorable, int16, int32, map_key, nullable, since


@request(api_key=3, versions="0-13", flexible="9+")
class MetadataRequest(Message):
    topics: Annotated[list[MetadataRequestTopic] | None, nullable("1+")] = array()
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False

    class MetadataRequestTopic(Struct):
        topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
        name: Annotated[str | None, nullable("10+")] = ""


@response(api_key=3, versions="0-13", flexible="9+")
class MetadataResponse(Message):
    throttle_time_ms: Annotated[int32, since(3), ignorable] = 0
    brokers: list[MetadataResponseBroker] = array()
    cluster_id: Annotated[str | None, since(2), ignorable] = None
    controller_id: Annotated[int32, since(1), ignorable] = -1
    topics: list[MetadataResponseTopic] = array()
    cluster_authorized_operations: Annotated[int32, between(8, 10)] = -2147483648
    error_code: Annotated[int16, since(13), ignorable] = 0

    class MetadataResponseBroker(Struct):
        node_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: int32 = 0
        rack: Annotated[str | None, since(1), ignorable] = None

    class MetadataResponseTopic(Struct):
        error_code: int16 = 0
        name: Annotated[str | None, nullable("12+"), map_key] = ""
        topic_id: Annotated[UUID, since(10), ignorable] = ZERO_UUID
        is_internal: Annotated[bool, since(1), ignorable] = False
        partitions: list[MetadataResponse.MetadataResponsePartition] = array()
        topic_authorized_operations: Annotated[int32, since(8)] = -2147483648

    class MetadataResponsePartition(Struct):
        error_code: int16 = 0
        partition_index: int32 = 0
        leader_id: int32 = 0
        leader_epoch: Annotated[int32, since(7), ignorable] = -1
        replica_nodes: list[int32] = array()
        isr_nodes: list[int32] = array()
        offline_replicas: Annotated[list[int32], since(5), ignorable] = array()
