"""Reads the configuration of topics, brokers, groups or clients (KIP-133).

Synonyms came with version 1 (KIP-226), documentation and types with 3 (KIP-569).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int8, int16, int32, since


@request(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Message):
    resources: list[DescribeConfigsResource] = array()
    include_synonyms: bool = False
    include_documentation: Annotated[bool, since(3)] = False

    class DescribeConfigsResource(Struct):
        resource_type: int8 = 0
        resource_name: str = ""
        configuration_keys: list[str] | None = array()


@response(api_key=32, versions="1-4", flexible="4+")
class DescribeConfigsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult] = array()

    class DescribeConfigsResult(Struct):
        error_code: int16 = 0
        error_message: str | None = ""
        resource_type: int8 = 0
        resource_name: str = ""
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = array()

    class DescribeConfigsResourceResult(Struct):
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: Annotated[int8, ignorable] = -1
        is_sensitive: bool = False
        synonyms: Annotated[list[DescribeConfigsResponse.DescribeConfigsSynonym], ignorable] = array()
        config_type: Annotated[int8, since(3), ignorable] = 0
        documentation: Annotated[str | None, since(3), ignorable] = ""

    class DescribeConfigsSynonym(Struct):
        name: str = ""
        value: str | None = ""
        source: int8 = 0
