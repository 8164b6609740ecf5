"""Lists the access control entries that match a filter (KIP-140).

Prefixed patterns came with version 1 (KIP-290), user resources with 3.
"""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, int8, int16, int32


@request(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest(Message):
    resource_type_filter: int8 = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int8 = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int8 = 0
    permission_type: int8 = 0


@response(api_key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = array()

    class DescribeAclsResource(Struct):
        resource_type: int8 = 0
        resource_name: str = ""
        pattern_type: int8 = 3
        acls: list[DescribeAclsResponse.AclDescription] = array()

    class AclDescription(Struct):
        principal: str = ""
        host: str = ""
        operation: int8 = 0
        permission_type: int8 = 0
