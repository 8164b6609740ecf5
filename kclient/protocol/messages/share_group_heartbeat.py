"""Makes and keeps a client a member of a share group (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, int16, int32


@request(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@response(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    assignment: Assignment | None = None

    class Assignment(Struct):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = array()

    class TopicPartitions(Struct):
        topic_id: UUID = ZERO_UUID
        partitions: list[int32] = array()
