"""ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kclient import errors
from kclient.protocol.consumer_protocol import ConsumerProtocolSubscription
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.list_groups import ListGroupsRequest
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataKey
from refbroker.metrics.exposition import as_dict
from refbroker.metrics.samples import Samples
from refbroker.server.metrics.groups import collect
from tests.refbroker.committing import GroupHarness

GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
NOT_ASKED = -(2**31)


@pytest_asyncio.fixture
async def groups(tmp_path: Path) -> AsyncIterator[GroupHarness]:
    """Three groups: g with a member that has its assignment, h that has offsets only, i whose member has none yet."""
    harness = GroupHarness(tmp_path / "data")
    harness.create("t")
    member, generation = await harness.join("g", topics=["t"])
    await harness.sync(member, generation, "g")
    harness.commit({("t", 0): 1}, group="h")
    await harness.join("i", topics=["t"])
    yield harness
    harness.close()


G, H = ("consumer", "Stable", "classic"), ("", "Empty", "classic")
I = ("consumer", "CompletingRebalance", "classic")  # noqa: E741


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), {"g": G, "h": H, "i": I}),
        (("stable", " EMPTY "), (), {"g": G, "h": H}),
        (("Stable",), ("classic",), {"g": G}),
        ((), ("CLASSIC", "consumer"), {"g": G, "h": H, "i": I}),
        ((), ("consumer",), {}),
        ((), ("nonsense",), {}),
        (("nonsense",), (), {}),
    ],
)
async def test_groups_are_listed_by_state_and_type(
    groups: GroupHarness, states: tuple[str, ...], types: tuple[str, ...], found: dict[str, tuple[str, str, str]]
) -> None:
    assert groups.list_groups(states, types) == found


async def test_older_versions_list_all(groups: GroupHarness) -> None:
    for version in range(4):
        answer = groups.send(ListGroupsRequest(), version)
        assert {(one.group_id, one.protocol_type) for one in answer.groups} == {
            ("g", "consumer"), ("h", ""), ("i", "consumer")
        }  # fmt: skip


async def test_nothing_is_listed_while_a_partition_loads(groups: GroupHarness) -> None:
    groups.restart()
    answer = groups.send(ListGroupsRequest(), 5)
    assert (answer.error_code, answer.groups) == (errors.CoordinatorLoadInProgressError.code, [])
    assert groups.describe().error_code == errors.CoordinatorLoadInProgressError.code
    await groups.loaded()
    # A generation that had no assignment yet is not kept.
    assert groups.list_groups() == {"g": G, "h": H, "i": ("", "Empty", "classic")}


async def test_a_stable_group_shows_what_its_members_say_and_have(groups: GroupHarness) -> None:
    described = groups.describe("g")
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    [member] = described.members
    assert (member.client_id, member.client_host, member.group_instance_id) == ("harness", "/test", None)
    assert member.member_id.startswith("harness-")
    assert ConsumerProtocolSubscription.decode_prefix(memoryview(member.member_metadata)[2:], 0)[0].topics == ["t"]
    assert member.member_assignment == b"all"


async def test_a_group_that_rebalances_does_not_show_what_its_members_say(groups: GroupHarness) -> None:
    described = groups.describe("i")
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    [member] = described.members
    assert (member.member_metadata, member.member_assignment) == (b"", b"")


async def test_a_group_that_is_not_there_is_dead_or_an_error(groups: GroupHarness) -> None:
    for version in range(6):
        described = groups.describe("x", version)
        assert (described.error_code, described.group_state) == (0, "Dead")
    described = groups.describe("x", 6)
    assert (described.error_code, described.group_state) == (errors.GroupIdNotFoundError.code, "Dead")
    assert described.error_message == "Group x not found."


async def test_permitted_operations_are_asked_to_those_who_ask(groups: GroupHarness) -> None:
    assert groups.describe("h", operations=True).authorized_operations == GROUP_OPERATIONS
    assert groups.describe("h").authorized_operations == NOT_ASKED
    assert groups.describe("x", operations=True).authorized_operations == NOT_ASKED
    assert groups.describe("x", 5, operations=True).authorized_operations == GROUP_OPERATIONS


async def test_only_groups_without_members_are_deleted(groups: GroupHarness) -> None:
    not_empty, missing = errors.GroupNotEmptyError.code, errors.GroupIdNotFoundError.code
    assert groups.delete_groups("g", "h", "i", "x", "h") == {"g": not_empty, "h": 0, "i": not_empty, "x": missing}
    assert set(groups.list_groups()) == {"g", "i"}
    assert groups.committed("h") == {}
    assert groups.stored()[-1] == (GroupMetadataKey("h"), None)
    await groups.restarted()
    assert set(groups.list_groups()) == {"g", "i"}


async def test_a_group_with_more_offsets_than_a_batch_takes_is_deleted(groups: GroupHarness) -> None:
    groups.create("many", 60)
    groups.commit({("many", number): number for number in range(60)}, group="h")
    log = groups.offsets_log
    log.update_config(log.config.with_topic_configs({"max.message.bytes": "1000"}))
    assert groups.delete_groups("h") == {"h": 0}
    assert groups.committed("h") == {}
    assert "h" not in groups.list_groups()


def counted(groups: GroupHarness) -> dict[str, Any]:
    samples = Samples()
    collect(groups.broker.groups, groups.broker.metrics.groups, samples)
    return as_dict(samples)


async def test_groups_and_offsets_are_counted(groups: GroupHarness) -> None:
    groups.delete_offsets({"t": [0]}, group="h")
    groups.commit({("t", 0): 2}, group="h")
    values = counted(groups)
    counts = {"": 3, "empty": 1, "stable": 1, "completingrebalance": 1, "preparingrebalance": 0, "dead": 0}
    for state, count in counts.items():
        assert values[f"kafka_coordinator_group_groupmetadatamanager_numgroups{state}"] == count
    assert values["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 1
    for name, count in {"commit": 2, "deletion": 1, "expiration": 0}.items():
        assert values[f"kafka_server_group_coordinator_metrics_offset_{name}_total"] == count
    assert values["kafka_server_group_coordinator_metrics_group_completed_rebalance_total"] == 1


async def test_consumer_groups_and_their_rebalances_are_counted(groups: GroupHarness) -> None:
    prefix = "kafka_server_group_coordinator_metrics"

    def beat(member_id: str, epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id="c", member_id=member_id, member_epoch=epoch)
        if epoch == 0:
            request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 1000, ["t"], []
        assert groups.send(request, 1).error_code == 0

    def states() -> dict[str, int]:
        values = counted(groups)
        assert values[f"{prefix}_group_count"] == {"classic": 3, "consumer": 1}
        return {state: count for state, count in values[f"{prefix}_consumer_group_count"].items() if count}

    beat("a", 0)
    assert states() == {"Stable": 1}
    beat("b", 0)
    assert states() == {"Assigning": 1}
    await groups.pass_time(1000)
    beat("b", 2)
    assert states() == {"Reconciling": 1}
    beat("a", -1)
    beat("b", -1)
    assert states() == {"Empty": 1}
    assert counted(groups)[f"{prefix}_consumer_group_rebalance_total"] == 2, "those who leave do not count"
