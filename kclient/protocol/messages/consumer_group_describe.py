"""Describes groups of the newer consumer protocol (KIP-848).

Sent to the coordinator of each group.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, fresh, ignorable, int8, int16, int32, since


@request(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str] = array()
    include_authorized_operations: bool = False


@response(api_key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
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
        members: list[ConsumerGroupDescribeResponse.Member] = array()
        authorized_operations: int32 = -2147483648

    class Member(Struct):
        member_id: str = ""
        instance_id: str | None = None
        rack_id: str | None = None
        member_epoch: int32 = 0
        client_id: str = ""
        client_host: str = ""
        subscribed_topic_names: list[str] = array()
        subscribed_topic_regex: str | None = None
        assignment: ConsumerGroupDescribeResponse.Assignment = fresh(lambda: ConsumerGroupDescribeResponse.Assignment())
        target_assignment: ConsumerGroupDescribeResponse.Assignment = fresh(
            lambda: ConsumerGroupDescribeResponse.Assignment()
        )
        member_type: Annotated[int8, since(1), ignorable] = -1

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = array()

    class TopicPartitions(Struct):
        topic_id: UUID = ZERO_UUID
        topic_name: str = ""
        partitions: list[int32] = array()
