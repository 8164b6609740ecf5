"""Lists the resources that have configurations: topics, brokers, groups, client metrics (KIP-714, KIP-1142)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int8, int16, int32, since


@request(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    resource_types: Annotated[list[int8], since(1)] = array()


@response(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource] = array()

    class ConfigResource(Struct):
        resource_name: str = ""
        resource_type: Annotated[int8, since(1), ignorable] = 16
