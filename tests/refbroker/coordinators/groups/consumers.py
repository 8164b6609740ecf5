"""The groups of one partition without a broker, both kinds: time and topics that a test moves, records it can read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kclient.errors import KafkaError
from kclient.protocol import Message
from kclient.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_any_version,
)
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataKey, GroupMetadataValue
from kclient.protocol.messages.records.metadata_log import PartitionRecord, RemoveTopicRecord, TopicRecord
from kclient.protocol.messages.sync_group import SyncGroupRequest
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.machine import ClassicGroups
from refbroker.coordinators.groups.classic.rebalancing import GroupSettings
from refbroker.coordinators.groups.classic.requests import Caller
from refbroker.coordinators.groups.consumer.group import ConsumerGroup
from refbroker.coordinators.groups.consumer.patterns import Patterns
from refbroker.coordinators.groups.consumer.records import replay
from refbroker.coordinators.groups.consumer.sessions import Sessions
from refbroker.coordinators.groups.consumer.settings import ConsumerSettings
from refbroker.coordinators.groups.consumer.topics import GroupTopics
from refbroker.coordinators.groups.consumer.update import Environment
from refbroker.coordinators.groups.protocols import Protocols
from refbroker.coordinators.records import CoordinatorRecord, decode_record
from refbroker.metadata.image import ClusterImage
from refbroker.metrics.counters import GroupStats

GROUP = "g"
REBALANCE_MS = 60_000
SESSION_MS = 45_000
INTERVAL_MS = 1_000

Owned = Mapping[str, list[int]]


class Consumers:
    """The groups of a partition, the topics, and the time.

    Attributes:
        written: the records, in order.
        failure: what every write fails with.
    """

    def __init__(self, **settings: Any) -> None:
        self.now_ms = 1_700_000_000_000
        self.timers: dict[str, tuple[int, Callable[[], Any]]] = {}
        self.written: list[CoordinatorRecord] = []
        self.failure: KafkaError | None = None
        self.image = ClusterImage()
        self.settings = ConsumerSettings(**settings)
        self._numbers = itertools.count(1)
        self.topics = GroupTopics(lambda: self.image)
        self.stats = GroupStats()
        self.open()

    def open(self) -> None:
        self.timers.clear()
        self.classic_groups: dict[str, ClassicGroup] = {}
        self.groups: dict[str, ConsumerGroup] = {}

        def new_uuid() -> str:
            return f"new-{next(self._numbers)}"

        self.classic = ClassicGroups(
            self.classic_groups, self, GroupSettings(initial_rebalance_delay_ms=0), new_uuid, self.stats
        )
        self.sessions = Sessions(self.groups, self.classic, self, self.topics, lambda _: self.settings)
        patterns = Patterns(self.groups.get, self, self.topics, self.stats)
        self.protocols = Protocols(
            self.classic_groups,
            self.classic,
            Environment(
                self.groups, self, self.topics, lambda _: self.settings, self.sessions, patterns, new_uuid, self.stats
            ),
        )

    def restart(self) -> None:
        """Forget everything, and replay what was written, through its bytes."""
        self.open()
        for record in self.written:
            self._replay(*decode_record(*record.encode(), topic="__consumer_offsets"))
        for group in self.groups.values():
            self.sessions.loaded(group)

    @property
    def group(self) -> ConsumerGroup:
        return self.groups[GROUP]

    # CoordinatorTimer

    def now(self) -> int:
        return self.now_ms

    def schedule(
        self, name: str, delay_ms: int, operation: Callable[[], Any], retry_after_ms: int | None = None
    ) -> None:
        self.timers[name] = self.now_ms + delay_ms, operation

    def cancel(self, name: str) -> None:
        self.timers.pop(name, None)

    def pass_time(self, ms: int) -> None:
        end = self.now_ms + ms
        while due := [(at, name) for name, (at, _) in self.timers.items() if at <= end]:
            self.now_ms, name = min(due)
            self.carry_out(self.timers.pop(name)[1])
        self.now_ms = end

    def carry_out(self, operation: Callable[[], Any]) -> Any:
        """What the runtime does."""
        result = operation()
        if result.records and self.failure is None:
            self.written += result.records
            if result.replayed:
                for record in result.records:
                    self._replay(record.key, record.value)
        if result.written is not None:
            result.written(self.failure if result.records else None)
        if result.records and self.failure is not None:
            raise self.failure
        return result.response

    def _replay(self, key: Message, value: Message | None) -> None:
        if isinstance(key, GroupMetadataKey):
            self.classic_groups.pop(key.group, None)
            if isinstance(value, GroupMetadataValue):
                self.classic_groups[key.group] = ClassicGroup.from_record(key.group, value, self.now)
        elif (begun := replay(self.groups, key, value)) is not None:
            self.classic_groups.pop(begun.group_id, None)

    # Topics

    def create(self, name: str, partitions: int) -> UUID:
        topic_id = UUID(int=len(self.image.topics_by_id) + len(self.written) * 1000 + 1)
        self._change(TopicRecord(name=name, topic_id=topic_id))
        for number in range(partitions):
            self._change(PartitionRecord(partition_id=number, topic_id=topic_id, replicas=[0], isr=[0], leader=0))
        return topic_id

    def grow(self, name: str, partitions: int) -> None:
        topic = self.image.topics[name]
        for number in range(len(topic.partitions), partitions):
            self._change(PartitionRecord(partition_id=number, topic_id=topic.topic_id, replicas=[0], isr=[0], leader=0))

    def delete(self, name: str) -> None:
        self._change(RemoveTopicRecord(topic_id=self.image.topics[name].topic_id))

    def _change(self, record: Message) -> None:
        self.image.replay(record)
        self.image.next_offset += 1
        if self.topics.follow([record]):
            for group in self.groups.values():
                group.topics_changed()

    # Requests

    def beat(self, member_id: str, epoch: int, owned: Owned | None = None, *, version: int = 1, **fields: Any) -> Any:
        """A heartbeat's answer."""
        partitions = None if owned is None else [
            ConsumerGroupHeartbeatRequest.TopicPartitions(self.image.topics[name].topic_id, numbers)
            for name, numbers in owned.items()
        ]  # fmt: skip
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member_id, member_epoch=epoch, topic_partitions=partitions, **fields
        )
        caller = Caller(version, "client", "/127.0.0.1")
        return self.carry_out(lambda: self.protocols.on_consumer_group_heartbeat(caller, request))

    def join(self, member_id: str, *topics: str, **fields: Any) -> Any:
        """The answer to a member that joins."""
        if "subscribed_topic_regex" not in fields:
            fields["subscribed_topic_names"] = list(topics)
        fields.setdefault("rebalance_timeout_ms", REBALANCE_MS)
        return self.beat(member_id, 0, {}, **fields)

    def leave(self, member_id: str, epoch: int = -1, **fields: Any) -> Any:
        return self.beat(member_id, epoch, **fields)

    def code(self, request: Callable[[], Any]) -> str:
        """The name of the error that a request ends with, "" for none."""
        try:
            request()
        except KafkaError as error:
            return type(error).__name__
        return ""

    def settle(self, *members: str) -> dict[str, dict[str, list[int]]]:
        """Let all members send heartbeats and apply the responses, until nothing changes."""
        before: object = None
        self.pass_time(INTERVAL_MS)
        while before != (before := self.assigned()):
            for member_id in members or list(self.group.members):
                member = self.group.members[member_id]
                self.beat(member_id, member.epoch, self.assigned()[member_id], instance_id=member.instance_id)
        return self.assigned()

    def assigned(self) -> dict[str, dict[str, list[int]]]:
        """What each member has, by the names of the topics."""
        return {
            member_id: {
                self.image.topics_by_id[topic].name: sorted(numbers)
                for topic, numbers in member.assigned.items()
                if topic in self.image.topics_by_id
            }
            for member_id, member in self.group.members.items()
        }

    # Classic members

    def classic_join(
        self,
        member_id: str = "",
        *topics: str,
        owned: Owned | None = None,
        instance_id: str | None = None,
        **fields: Any,
    ) -> Any:
        """The response, None until it arrives."""
        partition = ConsumerProtocolSubscription.TopicPartition
        metadata = encode_versioned(
            ConsumerProtocolSubscription(
                topics=list(topics),
                owned_partitions=[partition(topic=name, partitions=numbers) for name, numbers in (owned or {}).items()],
            ),
            1,
        )
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        answers: list[Any] = []
        version = fields.pop("version", 9)
        self.carry_out(lambda: self.protocols.on_join_group(Caller(version, "c", "/h"), request, answers.append))
        return answers[0] if answers else None

    def classic_sync(self, member_id: str, generation: int, instance_id: str | None = None) -> dict[str, list[int]]:
        """What a classic member of a consumer group is informed that it has."""
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance_id,
            protocol_type="consumer", protocol_name="range",
        )  # fmt: skip
        answers: list[Any] = []
        self.carry_out(lambda: self.protocols.on_sync_group(request, answers.append))
        [answer] = answers
        assignment = decode_any_version(ConsumerProtocolAssignment, answer.assignment)
        return {one.topic: one.partitions for one in assignment.assigned_partitions}

    def classic_beat(self, member_id: str, generation: int) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        return int(self.carry_out(lambda: self.protocols.on_heartbeat(request)).error_code)

    def classic_leave(self, *members: tuple[str, str | None]) -> list[int]:
        request = LeaveGroupRequest(
            group_id=GROUP,
            members=[LeaveGroupRequest.MemberIdentity(member_id=one, group_instance_id=two) for one, two in members],
        )
        return [each.error_code for each in self.carry_out(lambda: self.protocols.on_leave_group(request)).members]
