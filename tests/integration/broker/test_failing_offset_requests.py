"""A consumer whose requests for committed offsets fail: it continues where its group was, or says why it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kclient.consumer import Consumer, StallReason
from kclient.errors import FencedInstanceIdError, GroupAuthorizationError, KafkaTimeoutError, RetriableCommitFailedError
from kclient.producer import Producer
from kclient.types import OffsetAndMetadata, TopicPartition
from refbroker.testing import RefBroker
from tests.support import clock
from tests.support.patience import ANSWER, NEVER_MS
from tests.support.waiting import wait_until

TP = TopicPartition("t", 0)


def consumer(kafka: RefBroker, **options: Any) -> Consumer:
    defaults = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "group_id": "g",
        "auto_offset_reset": "latest",
        "heartbeat_interval_ms": 200,
        "request_timeout_ms": 1_000,
        "retry_backoff_ms": 20,
    }
    return Consumer("t", **{**defaults, **options})


@pytest.fixture(autouse=True)
def committed(kafka: RefBroker) -> None:
    """Twenty records, of which the group has committed five."""
    kafka.create_topic("t")
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(20):
            producer.send("t", b"%d" % number)
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id="g") as first:
        first.assign([TP])
        first.commit({TP: OffsetAndMetadata(5, "begin")})


def first_offset(reader: Consumer) -> int:
    deadline = clock.monotonic() + ANSWER
    while clock.monotonic() < deadline:
        for record in reader.poll(0.5, max_records=1):
            return record.offset
    raise AssertionError("no record came")


FAULTS: dict[str, Callable[[RefBroker], object]] = {
    "loading": lambda kafka: kafka.faults.fail("OffsetFetch", error="COORDINATOR_LOAD_IN_PROGRESS", count=5),
    "not available": lambda kafka: kafka.faults.fail("OffsetFetch", error="COORDINATOR_NOT_AVAILABLE", count=3),
    "moved again and again": lambda kafka: kafka.faults.fail("OffsetFetch", error="NOT_COORDINATOR", count=5),
    "an open transaction": lambda kafka: kafka.faults.fail(
        "OffsetFetch", error="UNSTABLE_OFFSET_COMMIT", topic="t", count=3
    ),
    "cut": lambda kafka: kafka.faults.cut("OffsetFetch", count=3),
    "no answer": lambda kafka: kafka.faults.drop("OffsetFetch", count=1),
    "half an answer": lambda kafka: kafka.faults.truncate("OffsetFetch", count=1),
    "no coordinator": lambda kafka: kafka.faults.fail("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", count=3),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_request_never_sends_a_partition_to_the_reset_policy(kafka: RefBroker, fault: str) -> None:
    FAULTS[fault](kafka)
    with consumer(kafka) as reader:
        assert first_offset(reader) == 5


def test_a_forbidden_group_is_raised_and_read_on_once_it_is_allowed(kafka: RefBroker) -> None:
    with consumer(kafka) as reader:
        with (
            kafka.faults.fail("OffsetFetch", error="GROUP_AUTHORIZATION_FAILED", count=None),
            pytest.raises(GroupAuthorizationError),
        ):
            first_offset(reader)
        wait_until(lambda: reads_on(reader))


def reads_on(reader: Consumer) -> bool:
    """Whether it has continued at the committed offset; what was to be raised before may still be."""
    try:
        return first_offset(reader) == 5
    except GroupAuthorizationError:
        return False


@pytest.mark.parametrize("when", ["before", "after"])
def test_commit_succeeds_in_spite_of_lost_answers(kafka: RefBroker, when: Any) -> None:
    with consumer(kafka, enable_auto_commit=False) as reader:
        assert first_offset(reader) == 5
        kafka.faults.cut("OffsetCommit", when=when, count=2)
        reader.commit()
        kafka.faults.fail("OffsetCommit", error="NOT_COORDINATOR", count=4)
        reader.commit({TP: 7})
        found = reader.committed([TP])[TP]
        assert found is not None
        assert found.offset == 7


def test_commit_returns_by_its_timeout(kafka: RefBroker) -> None:
    with consumer(kafka, enable_auto_commit=False, default_api_timeout_ms=NEVER_MS) as reader:
        assert first_offset(reader) == 5
        with (
            kafka.faults.fail("OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", count=None),
            pytest.raises(KafkaTimeoutError, match="COORDINATOR_LOAD_IN_PROGRESS"),
        ):
            reader.commit(timeout=0.5)


def test_automatic_commits_that_fail_show_in_health_and_recover(kafka: RefBroker) -> None:
    with consumer(kafka, auto_commit_interval_ms=50) as reader:
        with kafka.faults.fail("OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", count=None):
            assert first_offset(reader) == 5
            reader.poll(0.0)
            wait_until(lambda: reader.health().commit_error is not None)
            error = reader.health().commit_error
            assert isinstance(error, RetriableCommitFailedError)
            assert reader.metrics()["commit_failed_total"] > 0
            wait_until(lambda: not reader.poll(0.05) and reader.health().partitions[TP].lag == 0)
            assert reader.health().partitions[TP].reason is StallReason.COMMIT_FAILING
        wait_until(lambda: reader.health().commit_error is None)


def test_a_fenced_member_learns_of_it_from_its_next_call(kafka: RefBroker) -> None:
    with consumer(kafka, auto_commit_interval_ms=50, group_instance_id="i") as reader:
        assert first_offset(reader) == 5
        kafka.faults.fail("OffsetCommit", error="FENCED_INSTANCE_ID")
        with pytest.raises(FencedInstanceIdError):
            wait_until(lambda: reader.poll(0.01, max_records=1) is None)


def test_commits_survive_a_restart_of_the_broker_and_continue_after_it(kafka: RefBroker) -> None:
    with consumer(kafka, enable_auto_commit=False) as reader:
        assert first_offset(reader) == 5
        reader.commit({TP: OffsetAndMetadata(6, "before")})
        kafka.kill()
        kafka.start()
        assert reader.committed([TP])[TP] == OffsetAndMetadata(6, "before")
        wait_until(lambda: _commits(reader, 8))


def _commits(reader: Consumer, offset: int) -> bool:
    """Whether it can commit; after the restart it may have to join again first."""
    reader.poll(0.05, max_records=1)
    if TP not in reader.assignment():
        return False
    reader.commit({TP: offset})
    found = reader.committed([TP])[TP]
    return found is not None and found.offset == offset
