"""Lists the quotas of users, client ids and addresses that match a filter (KIP-546)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, float64, int8, int16, int32


@request(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    components: list[ComponentData] = array()
    strict: bool = False

    class ComponentData(Struct):
        entity_type: str = ""
        match_type: int8 = 0
        match: str | None = ""


@response(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = array()

    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = array()
        values: list[DescribeClientQuotasResponse.ValueData] = array()

    class EntityData(Struct):
        entity_type: str = ""
        entity_name: str | None = ""

    class ValueData(Struct):
        key: str = ""
        value: float64 = 0.0
