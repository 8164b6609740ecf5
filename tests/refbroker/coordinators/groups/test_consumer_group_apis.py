"""The consumer protocol through a whole broker: requests, settings, files, and what other requests see of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from kclient.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.describe_groups import DescribeGroupsRequest
from kclient.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest
from kclient.protocol.messages.records.metadata_log import FeatureLevelRecord
from tests.refbroker.committing import GroupHarness

UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, INVALID_REQUEST = 25, 35, 42
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69
STALE_MEMBER_EPOCH, UNSUPPORTED_ASSIGNOR = 113, 112
GROUP = 32


class Broker(GroupHarness):
    """A broker with the topic t of two partitions."""

    topic: UUID

    def beat(
        self, member_id: str, epoch: int, *, version: int = 1, owned: list[int] | None = None, **fields: Any
    ) -> Any:
        held = None if owned is None else [ConsumerGroupHeartbeatRequest.TopicPartitions(self.topic, owned)]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=epoch, topic_partitions=held, **fields
        )
        return self.send(request, version)

    def join_consumer_group(self, member_id: str, **fields: Any) -> Any:
        request: dict[str, Any] = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"]} | fields
        return self.send(
            ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, topic_partitions=[], **request), 1
        )

    def describe_consumer_group(self, group: str = "g") -> Any:
        [described] = self.send(
            ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=True), 1
        ).groups
        return described


@pytest_asyncio.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, group_consumer_assignment_interval_ms="0")
    broker.topic = broker.create("t", 2)
    yield broker
    broker.close()


async def test_a_member_joins_and_is_described(broker: Broker) -> None:
    answer = broker.join_consumer_group("a")
    assert (answer.error_code, answer.member_epoch) == (0, 2)
    assert [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions] == [(broker.topic, [0, 1])]
    group = broker.describe_consumer_group()
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable", 2, 2, "uniform",
    )  # fmt: skip
    assert group.authorized_operations == 3400
    [member] = group.members
    assert (member.member_id, member.member_epoch, member.member_type, member.client_id) == ("a", 2, 1, "harness")
    assert [(one.topic_name, one.partitions) for one in member.assignment.topic_partitions] == [("t", [0, 1])]
    assert member.target_assignment == member.assignment
    assert broker.list_groups() == {"g": ("consumer", "Stable", "consumer")}
    assert broker.list_groups(types=("classic",)) == {}
    assert broker.list_groups(states=("stable",), types=("Consumer",)) == {"g": ("consumer", "Stable", "consumer")}


async def test_groups_of_the_other_kind_are_not_found(broker: Broker) -> None:
    broker.join_consumer_group("a")
    [described] = broker.send(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert (described.error_code, described.error_message) == (GROUP_ID_NOT_FOUND, "Group g is not a classic group.")
    broker.commit({("t", 0): 1}, "h")
    for group, text in (("h", "Group h is not a consumer group."), ("i", "Group i not found.")):
        missing = broker.describe_consumer_group(group)
        assert (missing.error_code, missing.error_message) == (GROUP_ID_NOT_FOUND, text)


async def test_errors_come_with_their_reason(broker: Broker) -> None:
    for answer, code, text in (
        (broker.beat("a", 2), GROUP_ID_NOT_FOUND, "Consumer group g not found."),
        (broker.beat("", 0), INVALID_REQUEST, "MemberId can't be empty."),
        (
            broker.join_consumer_group("a", server_assignor="x"),
            UNSUPPORTED_ASSIGNOR,
            "ServerAssignor x is not supported.",
        ),
        (broker.beat("a", -1), GROUP_ID_NOT_FOUND, "Group g not found."),
    ):
        assert answer.error_code == code
        assert answer.error_message.startswith(text)
    broker.commit({("t", 0): 1}, "g")
    for epoch in (1, -1):
        assert broker.beat("a", epoch).error_message == "Group g is not a consumer group."


async def test_the_protocol_needs_the_feature_and_the_setting(broker: Broker, tmp_path: Path) -> None:
    broker.broker.controller.append([FeatureLevelRecord(name="group.version", feature_level=0)])
    assert broker.join_consumer_group("a").error_code == UNSUPPORTED_VERSION
    assert broker.describe_consumer_group().error_code == UNSUPPORTED_VERSION
    other = Broker(tmp_path / "other", group_coordinator_rebalance_protocols="classic")
    assert other.join_consumer_group("a").error_code == UNSUPPORTED_VERSION
    other.close()


async def test_a_group_has_settings_of_its_own(broker: Broker) -> None:
    assert broker.join_consumer_group("a").heartbeat_interval_ms == 5_000
    wanted = {"consumer.heartbeat.interval.ms": "9000", "consumer.session.timeout.ms": "50000"}
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=GROUP,
        resource_name="g",
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in wanted.items()
        ],
    )
    [result] = broker.send(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert result.error_code == 0
    assert broker.beat("a", 2).heartbeat_interval_ms == 9_000
    await broker.pass_time(49_999)
    assert [member.member_id for member in broker.describe_consumer_group().members] == ["a"]
    await broker.pass_time(1)
    assert broker.describe_consumer_group().members == []


@pytest.mark.parametrize("clean", [True, False])
async def test_epochs_and_assignments_outlive_the_broker(broker: Broker, clean: bool) -> None:
    broker.join_consumer_group("a")
    broker.join_consumer_group("b")
    broker.beat("a", 2, owned=[0])
    before = broker.describe_consumer_group()
    await broker.restarted(clean=clean)
    assert broker.describe_consumer_group() == before
    assert broker.beat("a", 3, owned=[0]).error_code == 0
    told = broker.beat("b", 3, owned=[])
    assert [one.partitions for one in told.assignment.topic_partitions] == [[1]]
    await broker.pass_time(45_000)
    assert broker.describe_consumer_group().group_state == "Empty"


async def test_only_members_commit_and_only_at_their_epoch(broker: Broker) -> None:
    broker.join_consumer_group("a")
    member: dict[str, Any] = {"member_id": "a", "generation_id_or_member_epoch": 2}
    assert broker.commit({("t", 0): 5}, **member) == {("t", 0): 0}
    assert broker.commit({("t", 0): 6}) == {("t", 0): UNKNOWN_MEMBER_ID}
    stale: dict[str, Any] = {"member_id": "a", "generation_id_or_member_epoch": 3}
    assert broker.commit({("t", 0): 6}, **stale) == {("t", 0): STALE_MEMBER_EPOCH}
    assert broker.commit({("t", 0): 6}, version=8, **member) == {("t", 0): UNSUPPORTED_VERSION}
    broker.join_consumer_group("b")
    broker.beat("a", 2, owned=[0])
    assert broker.commit({("t", 0): 7}, **member) == {("t", 0): 0}, "it has had the partition since then"
    assert broker.commit({("t", 1): 7}, **member) == {("t", 1): STALE_MEMBER_EPOCH}
    for member_id, epoch, code in (
        ("a", 3, 0),
        ("a", 2, STALE_MEMBER_EPOCH),
        ("x", 3, UNKNOWN_MEMBER_ID),
        (None, -1, 0),
    ):
        group = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=None
        )
        [answer] = broker.send(OffsetFetchRequest(groups=[group]), 9).groups
        assert answer.error_code == code
        assert [one.committed_offset for topic in answer.topics for one in topic.partitions] == ([] if code else [7])


async def test_a_group_is_deleted_once_it_is_empty(broker: Broker) -> None:
    broker.join_consumer_group("a")
    broker.commit({("t", 0): 5}, member_id="a", generation_id_or_member_epoch=2)
    assert broker.send(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == NON_EMPTY_GROUP
    broker.beat("a", -1)
    assert broker.send(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == 0
    assert broker.list_groups() == {}
    await broker.restarted()
    assert broker.list_groups() == {}
    assert broker.fetch({"t": [0]})["t", 0][0] == -1


async def test_an_empty_group_goes_with_its_last_offset(broker: Broker) -> None:
    broker.join_consumer_group("a")
    broker.commit({("t", 0): 5}, member_id="a", generation_id_or_member_epoch=2)
    broker.beat("a", -1)
    await broker.pass_time(7 * 24 * 3600 * 1000 + 1)
    await broker.pass_time(600_000)
    assert broker.list_groups() == {}
    await broker.restarted()
    assert broker.list_groups() == {}


async def test_topics_that_come_grow_and_go_reach_the_members(broker: Broker) -> None:
    broker.join_consumer_group("a", subscribed_topic_names=["t", "u"])
    broker.create("u", 1)
    told = broker.beat("a", 2, owned=[0, 1])
    assert (told.member_epoch, len(told.assignment.topic_partitions)) == (3, 2)
    broker.send(DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="t")]), 6)
    told = broker.beat("a", 3, owned=[])
    assert (told.member_epoch, len(told.assignment.topic_partitions)) == (4, 1)


async def test_a_pattern_is_resolved_by_the_broker(broker: Broker) -> None:
    broker.join_consumer_group("a", subscribed_topic_names=None, subscribed_topic_regex="t|none")
    await broker.pass_time(0)
    told = broker.join_consumer_group("a", subscribed_topic_names=None, subscribed_topic_regex="t|none")
    assert [one.partitions for one in told.assignment.topic_partitions] == [[0, 1]]
    assert broker.describe_consumer_group().members[0].subscribed_topic_regex == "t|none"
    await broker.restarted()
    assert broker.beat("a", told.member_epoch, owned=[0, 1]).error_code == 0
