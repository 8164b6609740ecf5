"""Creates topics.

Carried out by the controller, to which any broker forwards it. `timeout_ms` is how long to wait
until the topics exist. Version 5 returns what was made (KIP-525), 7 the topic ids.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int8, int16, int32, map_key, since, tagged


@request(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = array()
    timeout_ms: int32 = 60000
    validate_only: bool = False

    class CreatableTopic(Struct):
        name: Annotated[str, map_key] = ""
        num_partitions: int32 = 0
        replication_factor: int16 = 0
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = array()
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = array()

    class CreatableReplicaAssignment(Struct):
        partition_index: Annotated[int32, map_key] = 0
        broker_ids: list[int32] = array()

    class CreatableTopicConfig(Struct):
        name: Annotated[str, map_key] = ""
        value: str | None = ""


@response(api_key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse(Message):
    throttle_time_ms: Annotated[int32, ignorable] = 0
    topics: list[CreatableTopicResult] = array()

    class CreatableTopicResult(Struct):
        name: Annotated[str, map_key] = ""
        topic_id: Annotated[UUID, since(7), ignorable] = ZERO_UUID
        error_code: int16 = 0
        error_message: Annotated[str | None, ignorable] = ""
        topic_config_error_code: Annotated[int16, since(5), tagged(0), ignorable] = 0
        num_partitions: Annotated[int32, since(5), ignorable] = -1
        replication_factor: Annotated[int16, since(5), ignorable] = -1
        configs: Annotated[list[CreateTopicsResponse.CreatableTopicConfigs] | None, since(5), ignorable] = array()

    class CreatableTopicConfigs(Struct):
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: Annotated[int8, ignorable] = -1
        is_sensitive: bool = False
