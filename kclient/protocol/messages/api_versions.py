"""Asks which APIs and versions a broker supports; the first request on a connection.

A broker that does not know the version of the request answers at version 0 with error 35 and its
own range, so that the client can ask again. The response header is always of version 0. Feature
levels came with version 3 (KIP-584).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int16, int32, int64, map_key, since, tagged


@request(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest(Message):
    client_software_name: Annotated[str, since(3), ignorable] = ""
    client_software_version: Annotated[str, since(3), ignorable] = ""


@response(api_key=18, versions="0-4", flexible="3+")
class ApiVersionsResponse(Message):
    error_code: int16 = 0
    api_keys: list[ApiVersion] = array()
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tagged(0), ignorable] = array()
    finalized_features_epoch: Annotated[int64, since(3), tagged(1), ignorable] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tagged(2), ignorable] = array()
    zk_migration_ready: Annotated[bool, since(3), tagged(3), ignorable] = False

    class ApiVersion(Struct):
        api_key: Annotated[int16, map_key] = 0
        min_version: int16 = 0
        max_version: int16 = 0

    class SupportedFeatureKey(Struct):
        name: Annotated[str, map_key] = ""
        min_version: int16 = 0
        max_version: int16 = 0

    class FinalizedFeatureKey(Struct):
        name: Annotated[str, map_key] = ""
        max_version_level: int16 = 0
        min_version_level: int16 = 0
