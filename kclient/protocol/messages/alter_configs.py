"""Replaces the configuration of topics or brokers as a whole (KIP-133).

IncrementalAlterConfigs has taken its place, since this one resets what it does not name.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int8, int16, int32, map_key, secret


@request(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = array()
    validate_only: bool = False

    class AlterConfigsResource(Struct):
        resource_type: Annotated[int8, map_key] = 0
        resource_name: Annotated[str, map_key] = ""
        configs: list[AlterConfigsRequest.AlterableConfig] = array()

    class AlterableConfig(Struct):
        name: Annotated[str, map_key] = ""
        value: Annotated[str | None, secret] = ""


@response(api_key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = array()

    class AlterConfigsResourceResponse(Struct):
        error_code: int16 = 0
        error_message: str | None = ""
        resource_type: int8 = 0
        resource_name: str = ""
