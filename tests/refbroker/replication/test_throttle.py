"""The throttles of replication: which replicas they cover, and when one has to wait."""

from __future__ import annotations

import pytest

from refbroker.quotas.rates import Rate, Window
from refbroker.replication.throttle import ReplicationThrottle, ThrottledReplicas


def throttle(*setting: str, limit: int = 1000) -> ReplicationThrottle:
    found = ReplicationThrottle(Rate(Window(11, 1000)))
    found.limit = limit
    found.topics["orders"] = ThrottledReplicas(setting, 1)
    return found


@pytest.mark.parametrize(
    ("setting", "covered"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["*"], [0, 1, 2], id="all"),
        pytest.param(["0:1", "1:2", "2:1"], [0, 2], id="of this broker"),
        pytest.param([" 2:1 "], [2], id="spaces"),
    ],
)
def test_setting_names_replicas_by_partition_and_broker(setting: list[str], covered: list[int]) -> None:
    assert [partition for partition in range(3) if partition in ThrottledReplicas(setting, 1)] == covered


def test_replica_waits_while_the_rate_is_above_the_limit() -> None:
    found = throttle("*")
    found.record("orders", 0, 20_000, 0)
    assert found.holds_back("orders", 1, 0, in_sync=False)
    assert not found.holds_back("orders", 1, 20_000, in_sync=False)


def test_replica_in_sync_and_one_that_is_not_covered_never_wait() -> None:
    found = throttle("0:1")
    found.record("orders", 0, 1_000_000, 0)
    assert not found.holds_back("orders", 0, 0, in_sync=True)
    assert not found.holds_back("orders", 1, 0, in_sync=False)
    assert not found.holds_back("other", 0, 0, in_sync=False)


def test_bytes_of_replicas_that_are_not_covered_do_not_count() -> None:
    found = throttle("0:1")
    found.record("orders", 1, 1_000_000, 0)
    assert not found.holds_back("orders", 0, 0, in_sync=False)


def test_no_limit_holds_back_nothing() -> None:
    found = ReplicationThrottle(Rate(Window(11, 1000)))
    found.topics["orders"] = ThrottledReplicas(["*"], 1)
    found.record("orders", 0, 1 << 40, 0)
    assert not found.holds_back("orders", 0, 0, in_sync=False)
