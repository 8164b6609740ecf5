"""The admin client's calls about groups while their coordinator loads, is another, or hangs up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient import Admin, OffsetAndMetadata, TopicPartition
from kclient.admin import OffsetReset
from kclient.errors import AdminError, GroupAuthorizationError, KafkaTimeoutError
from refbroker.testing import RefBroker

PARTITION = TopicPartition("orders", 0)

CALLS: dict[str, Callable[[Admin], Any]] = {
    "ListGroups": lambda admin: admin.list_groups(),
    "DescribeGroups": lambda admin: admin.describe_groups("billing"),
    "OffsetFetch": lambda admin: admin.list_group_offsets("billing"),
    "OffsetCommit": lambda admin: admin.alter_group_offsets("billing", {PARTITION: 3}),
    "OffsetDelete": lambda admin: admin.delete_group_offsets("billing", [PARTITION]),
    "DeleteGroups": lambda admin: admin.delete_groups("billing"),
    "FindCoordinator": lambda admin: admin.reset_group_offsets("billing", OffsetReset.latest()),
}


@pytest.fixture
def admin(kafka: RefBroker) -> Iterator[Admin]:
    kafka.create_topic("orders", 1)
    with Admin(bootstrap_servers=kafka.bootstrap_servers, retry_backoff_ms=1) as client:
        client.alter_group_offsets("billing", {PARTITION: 0})
        yield client


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"])
@pytest.mark.parametrize("api", CALLS)
def test_a_coordinator_that_cannot_answer_now_is_asked_again(
    kafka: RefBroker, admin: Admin, api: str, error: str
) -> None:
    fault = kafka.faults.fail(api, error, count=2)
    CALLS[api](admin)
    assert fault.fired == 2


@pytest.mark.parametrize("api", CALLS)
def test_a_lost_connection_is_made_again(kafka: RefBroker, admin: Admin, api: str) -> None:
    fault = kafka.faults.cut(api, count=1)
    CALLS[api](admin)
    assert fault.fired == 1


def test_a_coordinator_that_never_has_loaded_ends_at_the_timeout(kafka: RefBroker, admin: Admin) -> None:
    kafka.faults.fail("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS", count=None)
    with pytest.raises((AdminError, KafkaTimeoutError), match=r"did not finish .* still loading"):
        admin.list_group_offsets("billing", timeout=1.0)


def test_what_a_retry_does_not_help_is_reported_immediately(kafka: RefBroker, admin: Admin) -> None:
    fault = kafka.faults.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(AdminError) as caught:
        admin.reset_group_offsets("billing", OffsetReset.to_offset(0))
    assert isinstance(caught.value.errors[PARTITION], GroupAuthorizationError)
    assert (caught.value.results, fault.fired) == ({}, 1)
    assert admin.list_group_offsets("billing")["billing"] == {PARTITION: OffsetAndMetadata(0)}
