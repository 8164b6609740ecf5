"""A broker without sockets whose groups commit offsets: short forms of the requests, and members in a call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.list_groups import ListGroupsRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.protocol.messages.sync_group import SyncGroupRequest
from kclient.records import read_batches
from refbroker.coordinators.records import decode_record
from refbroker.log import Files, PartitionLog
from tests.support.broker_harness import Harness

OFFSETS_TOPIC = "__consumer_offsets"


class GroupHarness(Harness):
    """A broker with `__consumer_offsets` of one partition."""

    def __init__(self, directory: Path, *, files: Files | None = None, **settings: str) -> None:
        defaults = {"offsets_topic_num_partitions": "1", "group_initial_rebalance_delay_ms": "0"}
        super().__init__(directory, files=files, **{**defaults, **settings})
        answer = self.send(FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        assert answer.coordinators[0].error_code == 0

    @property
    def offsets_log(self) -> PartitionLog:
        log = self.broker.logs.get(OFFSETS_TOPIC, 0)
        assert log is not None
        return log

    def stored(self) -> list[tuple[Message, Message | None]]:
        """Keys and values of all the records in `__consumer_offsets`."""
        return [
            decode_record(record.key or b"", record.value, OFFSETS_TOPIC)
            for segment in self.offsets_log.segments
            for batch in read_batches(self.offsets_log.read(segment.base_offset, 1 << 30).records.read())
            for record in batch.records(OFFSETS_TOPIC, 0)
        ]

    # Offsets

    def commit(
        self,
        offsets: Mapping[tuple[str | UUID, int], int],
        group: str = "g",
        *,
        version: int = 9,
        epoch: int = -1,
        metadata: str | None = "",
        **fields: Any,
    ) -> dict[tuple[Any, int], int]:
        """The error codes."""
        topics: dict[str | UUID, OffsetCommitRequest.OffsetCommitRequestTopic] = {}
        for (topic, partition), offset in offsets.items():
            named = {"name": topic} if isinstance(topic, str) else {"topic_id": topic}
            one = topics.setdefault(topic, OffsetCommitRequest.OffsetCommitRequestTopic(**named))
            one.partitions.append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata=metadata,
                )
            )
        answer = self.send(OffsetCommitRequest(group_id=group, topics=list(topics.values()), **fields), version)
        return {
            (topic.topic_id if topic.topic_id.int else topic.name, one.partition_index): one.error_code
            for topic in answer.topics
            for one in topic.partitions
        }

    def fetch(
        self,
        topics: Mapping[str | UUID, list[int]] | None = None,
        group: str = "g",
        *,
        version: int = 9,
        require_stable: bool = False,
    ) -> dict[tuple[Any, int], tuple[int, int, str, int]]:
        """Offset, leader epoch, metadata and error code of each partition; all of them without topics."""
        one = OffsetFetchRequest
        if version < 8:
            old = None if topics is None else [
                one.OffsetFetchRequestTopic(name=str(name), partition_indexes=list(numbers))
                for name, numbers in topics.items()
            ]  # fmt: skip
            answer = self.send(one(group_id=group, topics=old, require_stable=require_stable), version)
        else:
            new = None if topics is None else [
                one.OffsetFetchRequestTopics(
                    **({"name": topic} if isinstance(topic, str) else {"topic_id": topic}), partition_indexes=numbers
                )
                for topic, numbers in topics.items()
            ]  # fmt: skip
            wanted = one.OffsetFetchRequestGroup(group_id=group, topics=new)
            [answer] = self.send(one(groups=[wanted], require_stable=require_stable), version).groups
        assert answer.error_code == 0
        return {
            (topic.topic_id if version >= 10 else topic.name, each.partition_index): (
                each.committed_offset,
                each.committed_leader_epoch,
                each.metadata,
                each.error_code,
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    def committed(self, group: str = "g") -> dict[tuple[str, int], int]:
        """All the offsets of a group."""
        return {key: found[0] for key, found in self.fetch(None, group).items()}

    def delete_offsets(self, topics: Mapping[str, list[int]], group: str = "g") -> Any:
        """The error code of the group, or those of the partitions."""
        one = OffsetDeleteRequest
        answer = self.send(
            one(
                group_id=group,
                topics=[
                    one.OffsetDeleteRequestTopic(
                        name=name,
                        partitions=[one.OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
                    )
                    for name, numbers in topics.items()
                ],
            ),
            0,
        )
        if answer.error_code:
            return answer.error_code
        return {
            (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
        }

    # Groups

    def delete_groups(self, *groups: str) -> dict[str, int]:
        answer = self.send(DeleteGroupsRequest(groups_names=list(groups)), 2)
        return {one.group_id: one.error_code for one in answer.results}

    def list_groups(self, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, tuple[str, str, str]]:
        answer = self.send(ListGroupsRequest(states_filter=list(states), types_filter=list(types)), 5)
        assert answer.error_code == 0
        return {one.group_id: (one.protocol_type, one.group_state, one.group_type) for one in answer.groups}

    def describe(self, group: str = "g", version: int = 6, *, operations: bool = False) -> Any:
        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=operations)
        return self.send(request, version).groups[0]

    async def join(self, group: str = "g", *, topics: list[str], protocol_type: str = "consumer") -> tuple[str, int]:
        """Become the only member; gives its id and the generation, for which it has no assignment yet."""
        subscription = encode_versioned(ConsumerProtocolSubscription(topics=topics), 0)
        protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocol_type=protocol_type,
            protocols=protocols,
        )
        future = self.send(request, 3)
        await self.pass_time(1)
        joined = await future
        assert joined.error_code == 0
        return joined.member_id, joined.generation_id

    async def sync(self, member: str, generation: int, group: str = "g") -> None:
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member, assignment=b"all")
        request = SyncGroupRequest(group_id=group, generation_id=generation, member_id=member, assignments=[assignment])
        assert (await self.send(request, 3)).error_code == 0

    def leave(self, member: str, group: str = "g") -> None:
        assert self.send(LeaveGroupRequest(group_id=group, member_id=member), 2).error_code == 0
