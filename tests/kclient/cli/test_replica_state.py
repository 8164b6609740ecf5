"""The filters of `kclient topics describe`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kclient.admin import Admin, ConfigEntry, ConfigResource, PartitionReassignment, TopicDescription
from kclient.cli.replica_state import Filter, described, reassignments_in_progress, selected
from kclient.errors import (
    AdminError,
    ClusterAuthorizationError,
    RequestTimedOutError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from kclient.types import PartitionInfo, TopicPartition

ALIVE = {1: "one", 2: "two"}


class Client:
    """An admin client of a cluster with brokers 1 and 2, where two replicas must be in sync."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def describe_configs(self, resources: list[ConfigResource]) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        self.asked.append(len(resources))
        return {each: {"min.insync.replicas": ConfigEntry("min.insync.replicas", "2")} for each in resources}

    def describe_cluster(self) -> Any:
        return SimpleNamespace(brokers=ALIVE)


def topic(*infos: PartitionInfo) -> TopicDescription:
    return TopicDescription("t", UUID(int=1), False, infos)


def partition(
    leader: int | None = 1, replicas: tuple[int, ...] = (1, 2, 3), in_sync: tuple[int, ...] = (1, 2, 3)
) -> PartitionInfo:
    return PartitionInfo("t", 0, leader, 0, replicas, in_sync)


def fulfilled(info: PartitionInfo, ongoing: PartitionReassignment | None = None) -> set[str]:
    """The names of the filters that select a partition."""
    moving = {} if ongoing is None else {TopicPartition("t", 0): ongoing}
    client = cast("Admin", Client())
    return {each.name for each in Filter if selected(client, {"t": topic(info)}, moving, {each})}


@pytest.mark.parametrize(
    ("info", "names"),
    [
        (partition(), set()),
        (partition(in_sync=(1, 2)), {"UNDER_REPLICATED", "AT_MIN_ISR"}),
        (partition(in_sync=(1,)), {"UNDER_REPLICATED", "UNDER_MIN_ISR"}),
        (partition(leader=None), {"UNAVAILABLE", "UNDER_MIN_ISR"}),
        (partition(leader=None, in_sync=()), {"UNAVAILABLE", "UNDER_MIN_ISR", "UNDER_REPLICATED"}),
        (partition(leader=9), {"UNAVAILABLE"}),
    ],
    ids=["healthy", "two", "one", "no leader", "nothing", "leader gone"],
)
def test_a_filter_selects_by_the_state_of_a_partition(info: PartitionInfo, names: set[str]) -> None:
    assert fulfilled(info) == names


def test_replicas_that_a_reassignment_adds_need_not_be_in_sync() -> None:
    moving = partition(replicas=(4, 1, 2, 3))
    assert fulfilled(moving, PartitionReassignment((4, 1, 2, 3), (4,), (3,))) == set()
    assert "UNDER_REPLICATED" in fulfilled(moving)
    ended = partition(replicas=(1, 2, 3), in_sync=(1, 2))
    assert "UNDER_REPLICATED" in fulfilled(ended, PartitionReassignment((4, 5), (4,), (5,)))


def test_only_selected_partitions_are_shown_and_no_topic_without_any() -> None:
    few = PartitionInfo("t", 1, 1, 0, (1, 2, 3), (1,))
    found = selected(cast("Admin", Client()), {"t": topic(partition(), few), "u": topic()}, {}, {Filter.UNDER_MIN_ISR})
    assert {name: each.partitions for name, each in found.items()} == {"t": (few,)}


def test_the_settings_of_many_topics_are_requested_in_parts() -> None:
    client = Client()
    topics = {f"t{number}": topic() for number in range(450)}
    selected(cast("Admin", client), topics, {}, {Filter.AT_MIN_ISR, Filter.UNAVAILABLE})
    assert client.asked == [200, 200, 50]
    selected(cast("Admin", client), topics, {}, {Filter.UNDER_REPLICATED})
    assert len(client.asked) == 3


def describing(errors: dict[str, BaseException]) -> Admin:
    def describe(names: Any) -> dict[str, TopicDescription]:
        found = {name: topic() for name in names if name not in errors}
        if errors:
            raise AdminError(found, errors)
        return found

    return cast("Admin", SimpleNamespace(list_topics=lambda include_internal: ["a", "b"], describe_topics=describe))


def test_a_topic_that_is_deleted_during_a_description_of_all_is_no_error() -> None:
    gone: dict[str, BaseException] = {"b": UnknownTopicOrPartitionError()}
    found, error = described(describing(gone), None)
    assert (list(found), error) == (["a"], None)
    found, error = described(describing(gone), ["a", "b"])
    assert list(found) == ["a"]
    assert error is not None
    hidden: dict[str, BaseException] = {"b": TopicAuthorizationError()}
    assert described(describing(hidden), None)[1] is not None


@pytest.mark.parametrize("refusal", [ClusterAuthorizationError(), RequestTimedOutError()])
def test_a_client_that_may_not_list_reassignments_sees_topics_without_them(refusal: Exception) -> None:
    def fail() -> Any:
        raise refusal

    client = cast("Admin", SimpleNamespace(list_partition_reassignments=fail))
    if isinstance(refusal, ClusterAuthorizationError):
        assert reassignments_in_progress(client) == {}
    else:
        with pytest.raises(RequestTimedOutError):
            reassignments_in_progress(client)
