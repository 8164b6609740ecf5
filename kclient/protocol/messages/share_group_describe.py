"""Describes share groups: state, epochs, and members with what they are assigned (KIP-932)."""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, fresh, int16, int32


@request(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest(Message):
    group_ids: list[str] = array()
    include_authorized_operations: bool = False


@response(api_key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = array()

    class DescribedGroup(Struct):
        error_code: int16 = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int32 = 0
        assignment_epoch: int32 = 0
        assignor_name: str = ""
        members: list[ShareGroupDescribeResponse.Member] = array()
        authorized_operations: int32 = -2147483648

    class Member(Struct):
        member_id: str = ""
        rack_id: str | None = None
        member_epoch: int32 = 0
        client_id: str = ""
        client_host: str = ""
        subscribed_topic_names: list[str] = array()
        assignment: ShareGroupDescribeResponse.Assignment = fresh(lambda: ShareGroupDescribeResponse.Assignment())

    class Assignment(Struct):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = array()

    class TopicPartitions(Struct):
        topic_id: UUID = ZERO_UUID
        topic_name: str = ""
        partitions: list[int32] = array()
