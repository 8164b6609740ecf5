"""Deletes topics, by name, or by id from version 6 on (KIP-516).

Carried out by the controller, to which any broker forwards it.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int16, int32, map_key, nullable, since, until


@request(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(Message):
    topics: Annotated[list[DeleteTopicState], since(6)] = array()
    topic_names: Annotated[list[str], until(5), ignorable] = array()
    timeout_ms: int32 = 0

    class DeleteTopicState(Struct):
        name: str | None = None
        topic_id: UUID = ZERO_UUID


@response(api_key=20, versions="1-6", flexible="4+")
class DeleteTopicsResponse(Message):
    throttle_time_ms: Annotated[int32, ignorable] = 0
    responses: list[DeletableTopicResult] = array()

    class DeletableTopicResult(Struct):
        name: Annotated[str | None, nullable("6+"), map_key] = ""
        topic_id: Annotated[UUID, since(6), ignorable] = ZERO_UUID
        error_code: int16 = 0
        error_message: Annotated[str | None, since(5), ignorable] = None
