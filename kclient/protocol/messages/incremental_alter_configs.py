"""Changes single settings of topics, brokers, groups or clients (KIP-339).

The operation is 0 to set, 1 to delete, 2 to append to a list and 3 to subtract from it.
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int8, int16, int32, map_key, secret


@request(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Message):
    resources: list[AlterConfigsResource] = array()
    validate_only: bool = False

    class AlterConfigsResource(Struct):
        resource_type: Annotated[int8, map_key] = 0
        resource_name: Annotated[str, map_key] = ""
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = array()

    class AlterableConfig(Struct):
        name: Annotated[str, map_key] = ""
        config_operation: Annotated[int8, map_key] = 0
        value: Annotated[str | None, secret] = ""


@response(api_key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse] = array()

    class AlterConfigsResourceResponse(Struct):
        error_code: int16 = 0
        error_message: str | None = ""
        resource_type: int8 = 0
        resource_name: str = ""
