"""A consumer group (KIP-848) at one broker: requests of its members, and answers and records that can be compared.

Hashes of topics, ids of topics and ids of members that the broker has made are compared by when they were seen first;
lists in an order of their own, since Kafka has them in that of its hash tables.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from itertools import groupby
from typing import Any
from uuid import UUID

import msgspec

from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription
from kclient.protocol.log_records import encode_versioned
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Beat
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.offset_commit import OffsetCommitRequest as Commit
from kclient.protocol.messages.offset_delete import OffsetDeleteRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest as Fetch
from kclient.protocol.messages.sync_group import SyncGroupRequest
from kclient.protocol.messages.update_features import UpdateFeaturesRequest
from refbroker.coordinators.records import decode_record
from tests.interop.plays import TOPIC, Play
from tests.support.waiting import wait_until
from tests.support.wire import Wire

TOPICS = {"play-t": 4, "play-u": 2, "play-x": 3}
TIMES = {"timestamp", "assignment_timestamp", "current_state_timestamp", "commit_timestamp", "expire_timestamp"}
KAFKA_ID = re.compile(r"[\w-]{22}")
REASON = re.compile(r"(?<=is not a valid regular expression: ).*")
T, U = "play-t", "play-u"
GROUP_RESOURCE, UNKNOWN_MEMBER_ID = 32, 25

Owned = dict[str, list[int]]


class ConsumerPlay(Play):
    """Members of a consumer group at one broker."""

    def __init__(self, bootstrap_servers: str, group: str, stack: ExitStack) -> None:
        super().__init__(bootstrap_servers, group, stack)
        self._topics = _topics(self._main)
        self._hashes: dict[int, str] = {}

    def reported(self, answer: Any) -> str:
        return f"{type(answer).__qualname__} {self._plain(answer)}"

    def _plain(self, message: Any) -> str:
        names = {topic_id: name for name, topic_id in self._topics.items()}

        def simplify(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: 0 if key in TIMES else simplify(self._hash(key, each)) for key, each in value.items()}
            if isinstance(value, list | tuple):
                return sorted(map(simplify, value), key=repr)
            if isinstance(value, str) and KAFKA_ID.fullmatch(value):
                return self._ids.setdefault(value, f"<{len(self._ids)}>")
            if isinstance(value, str):
                return REASON.sub("...", value)
            return names.get(value, value) if isinstance(value, UUID) else value

        return self.named(repr(simplify(msgspec.to_builtins(message, builtin_types=(bytes, UUID)))))

    def _hash(self, key: str, value: Any) -> Any:
        if key == "metadata_hash" and value:
            return self._hashes.setdefault(value, f"<hash {len(self._hashes)}>")
        # The metadata log of a Kafka has more records than refbroker's.
        return "<version>" if key == "version" and isinstance(value, int) else value

    def written(self) -> list[str]:
        """What is in the log about the group; neighbours of a kind in an order of their own."""
        records = []
        for data, stored in self.log():
            key, value = decode_record(data, stored, TOPIC)
            if self.group in (getattr(key, "group_id", None), getattr(key, "group", None)):
                version = None if stored is None else int.from_bytes(stored[:2], "big")
                records.append((type(key).__name__, version, self._plain(key), self._plain(value)))
        return [
            str(record)
            for _, neighbours in groupby(records, key=lambda record: record[:2])
            for record in sorted(neighbours)
        ]

    def finalize(self, level: int, **fields: Any) -> None:
        """Change the level of group.version, and wait until the broker goes by it."""
        change = UpdateFeaturesRequest.FeatureUpdateKey(feature="group.version", max_version_level=level, **fields)
        assert self._main.ask(UpdateFeaturesRequest(feature_updates=[change]), 1).error_code == 0
        asked = ApiVersionsRequest(client_software_name="play", client_software_version="1")

        def finalized() -> int:
            levels = {each.name: each.max_version_level for each in self._main.ask(asked, 3).finalized_features}
            return int(levels.get("group.version", 0))

        wait_until(lambda: finalized() == level)

    def configure(self, **settings: str) -> None:
        """Give the group settings of its own; underscores stand for dots."""
        one = IncrementalAlterConfigsRequest.AlterableConfig
        configs = [one(name=name.replace("_", "."), value=value) for name, value in settings.items()]
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(GROUP_RESOURCE, self.group, configs)
        self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)

    # The consumer protocol

    def beat(self, member: str, epoch: int, owned: Owned | None = None, *, version: int = 1, **fields: Any) -> Any:
        return self.ask(self._beat(member, epoch, owned, **fields), version)

    def _beat(self, member: str, epoch: int, owned: Owned | None, **fields: Any) -> Beat:
        held = None if owned is None else [Beat.TopicPartitions(self._topics[name], owned[name]) for name in owned]
        given: dict[str, Any] = {"group_id": self.group, "topic_partitions": held}
        return Beat(member_id=member, member_epoch=epoch, **(given | fields))

    def join(self, member: str, *topics: str, version: int = 1, **fields: Any) -> Any:
        given: dict[str, Any] = {"rebalance_timeout_ms": 60_000}
        if "subscribed_topic_regex" not in fields:
            given["subscribed_topic_names"] = list(topics)
        return self.beat(member, 0, {}, version=version, **(given | fields))

    def wait_for_epoch(self, member: str, epoch: int) -> int:
        """Send heartbeats of a member until it receives another epoch; patterns are resolved later."""
        found: list[Any] = []

        def changed() -> bool:
            found.append(self._main.ask(self._beat(member, epoch, None), 1))
            return bool(found[-1].member_epoch != epoch)

        wait_until(changed)
        return int(self.note(found[-1]).member_epoch)

    def wait_for_interval(self, member: str, epoch: int, interval_ms: int) -> None:
        """Send heartbeats until the response has this interval; Kafka applies settings a little later."""
        beat = self._beat(member, epoch, None)
        wait_until(lambda: self._main.ask(beat, 1).heartbeat_interval_ms == interval_ms)

    def wait_until_fenced(self, member: str, epoch: int) -> None:
        """Send heartbeats of a member that give up nothing until it is no longer one."""
        beat = self._beat(member, epoch, None)
        wait_until(lambda: self._main.ask(beat, 1).error_code == UNKNOWN_MEMBER_ID)

    def describe(self, *groups: str, version: int = 1) -> None:
        self.ask(ConsumerGroupDescribeRequest(group_ids=list(groups or [self.group])), version)

    # The classic protocol

    def classic_join(self, member: str = "", *topics: str, owned: Owned | None = None, **fields: Any) -> Any:
        partition = ConsumerProtocolSubscription.TopicPartition
        subscription = ConsumerProtocolSubscription(
            topics=list(topics), owned_partitions=[partition(name, numbers) for name, numbers in (owned or {}).items()]
        )
        one = JoinGroupRequest.JoinGroupRequestProtocol
        given: dict[str, Any] = {
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [one("range", encode_versioned(subscription, 1))],
        }
        return self.ask(JoinGroupRequest(group_id=self.group, member_id=member, **(given | fields)), 9)

    def classic_member(self, *topics: str, **fields: Any) -> str:
        """Ask for the id of a dynamic member."""
        return str(self.classic_join("", *topics, **fields).member_id)

    def sync(self, member: str, generation: int, *, assignment: bytes | None = None, **fields: Any) -> Any:
        one = SyncGroupRequest.SyncGroupRequestAssignment
        given: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"}
        if assignment is not None:
            given["assignments"] = [one(member, assignment)]
        request = SyncGroupRequest(group_id=self.group, generation_id=generation, member_id=member, **(given | fields))
        return self.ask(request, 5)

    def classic_beat(self, member: str, generation: int, **fields: Any) -> Any:
        request = HeartbeatRequest(group_id=self.group, member_id=member, generation_id=generation, **fields)
        return self.ask(request, 4)

    def wait_until_out(self, member: str, generation: int) -> None:
        """Send heartbeats of a classic member that does nothing else until it is no longer one."""
        beat = HeartbeatRequest(group_id=self.group, member_id=member, generation_id=generation)
        wait_until(lambda: self._main.ask(beat, 4).error_code == UNKNOWN_MEMBER_ID)

    def leave(self, *members: tuple[str, str | None]) -> Any:
        identities = [LeaveGroupRequest.MemberIdentity(member_id=one, group_instance_id=two) for one, two in members]
        return self.ask(LeaveGroupRequest(group_id=self.group, members=identities), 5)

    # Offsets

    def commit(self, member: str, epoch: int, *partitions: int, version: int = 9, **fields: Any) -> None:
        wanted = [Commit.OffsetCommitRequestPartition(number, 5) for number in partitions or (0,)]
        topic = Commit.OffsetCommitRequestTopic(name=T, topic_id=self._topics[T], partitions=wanted)
        if version >= 10:
            topic.name = ""
        else:
            topic.topic_id = UUID(int=0)
        given = {"group_id": self.group, "topics": [topic], "member_id": member}
        self.ask(Commit(generation_id_or_member_epoch=epoch, **(given | fields)), version)

    def delete_offsets(self, *partitions: int) -> None:
        wanted = [OffsetDeleteRequest.OffsetDeleteRequestPartition(number) for number in partitions]
        topics = [OffsetDeleteRequest.OffsetDeleteRequestTopic(T, wanted)]
        self.ask(OffsetDeleteRequest(group_id=self.group, topics=topics), 0)

    def fetch(self, member: str | None, epoch: int, version: int = 9) -> None:
        topic = Fetch.OffsetFetchRequestTopics(name=T, partition_indexes=[0, 1])
        group = Fetch.OffsetFetchRequestGroup(group_id=self.group, member_id=member, member_epoch=epoch, topics=[topic])
        self.ask(Fetch(groups=[group]), version)


def _topics(wire: Wire) -> dict[str, UUID]:
    """The ids of the topics, which are made if they are not there."""
    one = CreateTopicsRequest.CreatableTopic
    wanted = [one(name=name, num_partitions=count, replication_factor=1) for name, count in TOPICS.items()]
    wire.ask(CreateTopicsRequest(topics=wanted, timeout_ms=30_000), 7)
    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in TOPICS]
    return {topic.name: topic.topic_id for topic in wire.ask(MetadataRequest(topics=asked), 12).topics}
