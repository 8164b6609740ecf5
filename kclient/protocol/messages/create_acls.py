"""Creates access control entries (KIP-140).

Prefixed patterns came with version 1 (KIP-290), user resources with 3.
"""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int8, int16, int32


@request(api_key=30, versions="1-3", flexible="2+")
class CreateAclsRequest(Message):
    creations: list[AclCreation] = array()

    class AclCreation(Struct):
        resource_type: int8 = 0
        resource_name: str = ""
        resource_pattern_type: int8 = 3
        principal: str = ""
        host: str = ""
        operation: int8 = 0
        permission_type: int8 = 0


@response(api_key=30, versions="1-3", flexible="2+")
class CreateAclsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[AclCreationResult] = array()

    class AclCreationResult(Struct):
        error_code: int16 = 0
        error_message: str | None = ""
