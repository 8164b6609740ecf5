"""Describes the cluster: its id, controller and brokers, or its controllers (KIP-700, KIP-919)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int8, int16, int32, map_key, since


@request(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = False
    endpoint_type: Annotated[int8, since(1)] = 1
    include_fenced_brokers: Annotated[bool, since(2)] = False


@response(api_key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[int8, since(1)] = 1
    cluster_id: str = ""
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker] = array()
    cluster_authorized_operations: int32 = -2147483648

    class DescribeClusterBroker(Struct):
        broker_id: Annotated[int32, map_key] = 0
        host: str = ""
        port: int32 = 0
        rack: str | None = None
        is_fenced: Annotated[bool, since(2)] = False
