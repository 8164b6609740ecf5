"""Makes and keeps a client a member of a consumer group, and brings its assignment (KIP-848).

The one request of the newer group protocol. Epoch 0 joins, -1 leaves, -2 leaves as a static member
for a while. Version 1 adds regular expressions and has the member choose its own id.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int16, int32, since


@request(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, since(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None

    class TopicPartitions(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[int32] = array()


@response(api_key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = array()

    class TopicPartitions(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[int32] = array()
