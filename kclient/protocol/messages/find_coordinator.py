"""Finds the broker that coordinates a group, a transactional id or a share partition.

Several keys at once from version 4 (KIP-699). Key type 0 is a group, 1 a transactional id, 2 a
share partition (KIP-932).
"""

from __future__ import annotations

from typing import Annotated

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import Struct, array, between, ignorable, int8, int16, int32, since, until


@request(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    key: Annotated[str, until(3)] = ""
    key_type: Annotated[int8, since(1)] = 0
    coordinator_keys: Annotated[list[str], since(4)] = array()


@response(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    throttle_time_ms: Annotated[int32, since(1), ignorable] = 0
    error_code: Annotated[int16, until(3)] = 0
    error_message: Annotated[str | None, between(1, 3), ignorable] = ""
    node_id: Annotated[int32, until(3)] = 0
    host: Annotated[str, until(3)] = ""
    port: Annotated[int32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = array()

    class Coordinator(Struct):
        key: str = ""
        node_id: int32 = 0
        host: str = ""
        port: int32 = 0
        error_code: int16 = 0
        error_message: Annotated[str | None, ignorable] = ""
