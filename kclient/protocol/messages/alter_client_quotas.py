"""Sets and removes quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, float64, int16, int32


@request(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    entries: list[EntryData] = array()
    validate_only: bool = False

    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = array()
        ops: list[AlterClientQuotasRequest.OpData] = array()

    class EntityData(Struct):
        entity_type: str = ""
        entity_name: str | None = ""

    class OpData(Struct):
        key: str = ""
        value: float64 = 0.0
        remove: bool = False


@response(api_key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    throttle_time_ms: int32 = 0
    entries: list[EntryData] = array()

    class EntryData(Struct):
        error_code: int16 = 0
        error_message: str | None = ""
        entity: list[AlterClientQuotasResponse.EntityData] = array()

    class EntityData(Struct):
        entity_type: str = ""
        entity_name: str | None = ""
