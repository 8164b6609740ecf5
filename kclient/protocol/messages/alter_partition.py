"""Tells the controller a new set of in-sync replicas; sent by the leader of a partition (KIP-497)."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from kclient.protocol.declaration import Message, request, response
from kclient.protocol.schema import ZERO_UUID, Struct, array, ignorable, int8, int16, int32, int64, since, until


@request(api_key=56, versions="2-3", flexible="0+")
class AlterPartitionRequest(Message):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    topics: list[TopicData] = array()

    class TopicData(Struct):
        topic_id: Annotated[UUID, ignorable] = ZERO_UUID
        partitions: list[AlterPartitionRequest.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        leader_epoch: int32 = 0
        new_isr: Annotated[list[int32], until(2)] = array()
        new_isr_with_epochs: Annotated[list[AlterPartitionRequest.BrokerState], since(3)] = array()
        leader_recovery_state: int8 = 0
        partition_epoch: int32 = 0

    class BrokerState(Struct):
        broker_id: int32 = 0
        broker_epoch: int64 = -1


@response(api_key=56, versions="2-3", flexible="0+")
class AlterPartitionResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[TopicData] = array()

    class TopicData(Struct):
        topic_id: Annotated[UUID, ignorable] = ZERO_UUID
        partitions: list[AlterPartitionResponse.PartitionData] = array()

    class PartitionData(Struct):
        partition_index: int32 = 0
        error_code: int16 = 0
        leader_id: int32 = 0
        leader_epoch: int32 = 0
        isr: list[int32] = array()
        leader_recovery_state: Annotated[int8, ignorable] = 0
        partition_epoch: int32 = 0
