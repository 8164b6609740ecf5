"""Changes the finalized feature levels of a cluster (KIP-584)."""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, ignorable, int8, int16, int32, map_key, since, until


@request(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Message):
    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey] = array()
    validate_only: Annotated[bool, since(1)] = False

    class FeatureUpdateKey(Struct):
        feature: Annotated[str, map_key] = ""
        max_version_level: int16 = 0
        allow_downgrade: Annotated[bool, until(0)] = False
        upgrade_type: Annotated[int8, since(1)] = 1


@response(api_key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    results: Annotated[list[UpdatableFeatureResult], until(1), ignorable] = array()

    class UpdatableFeatureResult(Struct):
        feature: Annotated[str, map_key] = ""
        error_code: int16 = 0
        error_message: str | None = ""
