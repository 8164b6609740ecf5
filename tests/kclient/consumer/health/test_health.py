"""Health: progress, and the reason if there is no progress."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kclient.consumer.assignment.partition_state import FetchState, PartitionState, Position
from kclient.consumer.health.gauges import HealthGauges
from kclient.consumer.health.monitor import HealthMonitor
from kclient.consumer.health.poll_tracker import PollTracker
from kclient.consumer.health.report import ConsumerHealth, PartitionHealth, StallReason
from kclient.consumer.health.snapshot import GroupView, HealthView
from kclient.consumer.iteration.current_chunk import Place
from kclient.errors import DeserializationError, IllegalStateError, KafkaError, TopicAuthorizationError, WakeupError
from kclient.metrics import Metrics
from kclient.types import Connectivity, ConnectivityState, TopicPartition
from tests.support.consumer_model import Model
from tests.support.typed import reread

TP = TopicPartition("t", 0)


class Watched:
    """A consumer's managers, and the monitor that watches them."""

    def __init__(self, *, in_group: bool = True, **options: Any) -> None:
        self.stalls: list[Mapping[TopicPartition, PartitionHealth]] = []
        self.model = Model(**{"stall_timeout_ms": 60_000, "on_stall": self.stalls.append, **options})
        self.member = SimpleNamespace(joining=False, state=SimpleNamespace(value="stable"))
        self.coordinator = SimpleNamespace(node=7, last_error=None)
        self.commit_error: KafkaError | None = None
        self.connectivity = Connectivity(ConnectivityState.REACHABLE)
        self.metrics = Metrics()
        model: Any = self.model
        member: Any = self.member
        coordinator: Any = self.coordinator
        self.poll_tracker = PollTracker(lambda: self.model.now)
        self.rebalancing = False
        group = GroupView(
            member if in_group else None, coordinator, lambda: self.rebalancing, lambda: self.commit_error
        )
        config = model.config
        self.view = HealthView(
            model.subscription,
            model.metadata,
            lambda: self.place,
            self.poll_tracker,
            group,
            lambda: self.connectivity,
            reads_committed=config.reads_committed,
        )
        self.gauges = HealthGauges(self.metrics, model.subscription, self.view)
        self.monitor = HealthMonitor(
            config, model.subscription, self.view, self.gauges, group, run_soon=lambda function: function()
        )
        self.place: Place | None = None
        self.log, self.other = self.model.add_topic("t", partitions=2)
        self.model.assign(TP)
        self.model.run(rounds=3)

    def pass_time(self, seconds: float, *, fetching: bool = True) -> None:
        for _ in range(int(seconds)):
            self.model.now += 1.0
            if fetching:
                self.model.run(rounds=2)
            self.monitor.poll(self.model.now)

    @property
    def health(self) -> PartitionHealth:
        return self.consumer.partitions[TP]

    @property
    def consumer(self) -> ConsumerHealth:
        return self.view.consumer(self.model.now)


def test_a_partition_that_was_read_to_its_end_waits_for_data() -> None:
    watched = Watched()
    watched.log.append(b"a", b"b")
    watched.pass_time(2)
    watched.model.read()
    watched.pass_time(3)
    health = watched.health
    assert (health.position, health.end_offset, health.lag, health.reason) == (2, 2, 0, StallReason.NO_DATA)
    assert health.last_progress == pytest.approx(2.0)


def test_records_that_lie_ready_wait_for_the_application() -> None:
    watched = Watched()
    watched.log.append(b"a", b"b")
    watched.pass_time(5)
    assert (watched.health.lag, watched.health.reason) == (2, StallReason.NOT_POLLING)


def test_each_obstacle_has_its_reason() -> None:
    watched = Watched()
    watched.log.append(b"a")
    watched.model.run(rounds=2)
    watched.model.read()
    watched.log.append(b"b")
    state = watched.model.subscription.partitions[TP]
    state.high_watermark = 2
    assert watched.health.reason is StallReason.FETCHING
    watched.commit_error = KafkaError("no")
    assert reread(watched.health.reason) is StallReason.COMMIT_FAILING
    assert watched.consumer.commit_error is watched.commit_error
    watched.model.buffer.starved = True
    assert reread(watched.health.reason) is StallReason.BUFFER_FULL
    state.state = FetchState.AWAITING_VALIDATION
    assert reread(watched.health.reason) is StallReason.POSITION_UNKNOWN
    watched.log.leader = None
    watched.model.refresh()
    assert reread(watched.health.reason) is StallReason.NO_LEADER
    state.state = FetchState.AWAITING_COMMITTED
    watched.coordinator.node = None
    assert reread(watched.health.reason) is StallReason.COORDINATOR_UNKNOWN
    watched.rebalancing = True
    assert reread(watched.health.reason) is StallReason.REBALANCING
    watched.model.subscription.pause([TP])
    assert reread(watched.health.reason) is StallReason.PAUSED


def test_nothing_is_known_of_the_lag_while_no_broker_is_reachable() -> None:
    watched = Watched()
    watched.log.append(b"a", b"b")
    watched.pass_time(2)
    watched.model.read()
    watched.pass_time(6)
    assert watched.metrics.snapshot()["records_lag_max"] == 0
    watched.connectivity = Connectivity(ConnectivityState.UNREACHABLE, 3.0, {"b:9092": KafkaError("refused")})
    watched.pass_time(6, fetching=False)
    health = watched.health
    assert (health.position, health.end_offset, health.lag, health.reason) == (2, 2, None, StallReason.NO_BROKER)
    assert watched.consumer.connectivity is watched.connectivity
    assert not any(name.startswith("records_lag") for name in watched.metrics.snapshot())
    watched.connectivity = Connectivity(ConnectivityState.REACHABLE)
    watched.pass_time(6)
    assert reread(watched.health.lag) == 0
    assert watched.metrics.snapshot()["records_lag_max"] == 0


def test_records_that_lie_ready_wait_for_no_broker() -> None:
    watched = Watched()
    watched.log.append(b"a", b"b")
    watched.pass_time(5)
    watched.connectivity = Connectivity(ConnectivityState.UNREACHABLE)
    assert watched.health.reason is StallReason.NOT_POLLING
    with watched.poll_tracker:
        assert reread(watched.health.reason) is not StallReason.NO_BROKER


OTHER = TopicPartition("t", 1)


def nothing(watched: Watched) -> None:
    """The application sleeps."""


def read_other(watched: Watched) -> None:
    watched.other.append(b"x")
    watched.model.run(rounds=2)
    with watched.poll_tracker:
        # A large piece of another partition is in its turn, and stays there.
        watched.model.subscription.buffer._turns.rotate(1)
        assert [partition for _, partition, *_ in watched.model.read(1)] == [OTHER.partition]


def poll_without_success(watched: Watched) -> None:
    with contextlib.suppress(DeserializationError), watched.poll_tracker:
        watched.model.read()


def fail_at_once(watched: Watched) -> None:
    with pytest.raises(TopicAuthorizationError), watched.poll_tracker:
        raise TopicAuthorizationError(topic="other")


def poll_refused(watched: Watched) -> None:
    with contextlib.suppress(TopicAuthorizationError), watched.poll_tracker:
        watched.model.read()


def ask(watched: Watched) -> None:
    with watched.poll_tracker:
        pass


def stay_within(watched: Watched) -> None:
    watched.poll_tracker.__enter__()


def rebalance(watched: Watched) -> None:
    watched.poll_tracker.__enter__()
    watched.rebalancing = True


def iterate_other(watched: Watched) -> None:
    state = watched.model.subscription.partitions[OTHER]
    offset = int(watched.model.now)
    watched.place = Place(state, Position(offset), Position(offset + 1))


@pytest.mark.parametrize(
    ("application", "every", "reason"),
    [
        (nothing, 1, StallReason.NOT_POLLING),
        (ask, 100, StallReason.NOT_POLLING),
        (ask, 20, StallReason.OTHERS_FIRST),
        (read_other, 1, StallReason.OTHERS_FIRST),
        (iterate_other, 1, StallReason.OTHERS_FIRST),
        (poll_without_success, 1, StallReason.FAILING),
        (fail_at_once, 1, StallReason.FAILING),
        (stay_within, 1, StallReason.READING),
        (rebalance, 1, StallReason.REBALANCING),
    ],
)
def test_what_lies_ready_and_is_not_read_says_why(
    application: Callable[[Watched], None], every: int, reason: StallReason
) -> None:
    def refuse(value: bytes) -> object:
        if value == b"bad":
            raise ValueError("no")
        return value

    watched = Watched(value_deserializer=refuse)
    watched.model.assign(TP, OTHER)
    watched.model.run()
    watched.log.append(b"bad")
    for second in range(70):
        if second % every == 0:
            application(watched)
        watched.pass_time(1)
    stalled = {tp: health for stall in watched.stalls for tp, health in stall.items()}
    assert stalled[TP].reason is reason
    assert (stalled[TP].error is not None) == (reason is StallReason.FAILING)


def test_a_partition_that_no_call_has_started_yet_waits_for_the_application() -> None:
    watched = Watched()
    watched.model.subscription.assign([OTHER])
    watched.pass_time(65)
    assert watched.stalls[0][OTHER].reason is StallReason.NOT_POLLING


def test_a_stall_says_what_calls_for_records_raise(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.model.subscription.partitions[TP].high_watermark = 1
    watched.log.error = TopicAuthorizationError.code
    for _ in range(70):
        poll_refused(watched)
        watched.pass_time(1)
    (record,) = [record for record in caplog.records if "no progress" in record.message]
    assert "calls for records fail: TOPIC_AUTHORIZATION_FAILED (29): The client may not access the topic" in (
        record.message
    )


def test_records_end_what_failed_before() -> None:
    watched = Watched()
    state = watched.model.subscription.partitions[TP]
    watched.model.subscription.fail(state, TopicAuthorizationError(topic="t", partition=0))
    with pytest.raises(TopicAuthorizationError) as raised, watched.poll_tracker:
        watched.model.read()
    assert watched.health.reason is StallReason.FAILING
    assert watched.health.error is not raised.value
    assert str(watched.health.error) == str(raised.value)
    watched.log.append(b"a")
    watched.model.run()
    with watched.poll_tracker:
        assert watched.model.read()
    assert reread(watched.health.reason) is StallReason.NO_DATA


def refused_once() -> Watched:
    """One call has raised that the topic may not be read; since then it may."""
    watched = Watched()
    watched.log.error = TopicAuthorizationError.code
    watched.model.run(rounds=2)
    with pytest.raises(TopicAuthorizationError), watched.poll_tracker:
        watched.model.read()
    assert watched.health.reason is StallReason.FAILING
    watched.log.error = 0
    return watched


def test_calls_that_bring_nothing_end_what_failed_before() -> None:
    watched = refused_once()
    for _ in range(5):
        watched.pass_time(1)
        with watched.poll_tracker:
            assert watched.model.read() == []
    assert (watched.health.lag, watched.health.reason, watched.health.error) == (0, StallReason.NO_DATA, None)


def test_what_failed_before_does_not_hide_what_a_stall_is_due_to() -> None:
    watched = refused_once()
    watched.model.subscription.partitions[TP].high_watermark = 1
    watched.log.leader = None
    watched.model.refresh()
    for _ in range(70):
        with watched.poll_tracker:
            assert watched.model.read() == []
        watched.pass_time(1)
    (stall,) = watched.stalls
    assert (stall[TP].reason, stall[TP].error) == (StallReason.NO_LEADER, None)


def test_calls_that_fail_at_another_partition_do_not_keep_up_what_failed_before() -> None:
    watched = Watched()
    watched.model.assign(TP, OTHER)
    watched.model.run()
    watched.log.error = watched.other.error = TopicAuthorizationError.code
    for second in range(10):
        if second == 3:
            watched.log.error = 0
        poll_refused(watched)
        poll_refused(watched)
        watched.pass_time(1)
    partitions = watched.consumer.partitions
    assert partitions[OTHER].reason is StallReason.FAILING
    assert (partitions[TP].reason, partitions[TP].error) == (StallReason.NO_DATA, None)


def test_calls_fail_as_long_as_the_next_one_does_however_seldom_they_are() -> None:
    watched = Watched()
    watched.log.error = TopicAuthorizationError.code
    watched.model.run(rounds=2)
    for _ in range(3):
        poll_refused(watched)
        for _ in range(20):
            watched.pass_time(1)
            assert watched.health.lag == 0
            assert watched.health.reason is StallReason.FAILING


def test_a_call_is_under_way_until_the_outermost_one_ends() -> None:
    now = 0.0
    poll_tracker = PollTracker(lambda: now)
    with poll_tracker:
        with pytest.raises(IllegalStateError), poll_tracker:
            raise IllegalStateError("a rebalance listener cannot ask for records")
        now = 5.0
        assert poll_tracker.within
        assert poll_tracker.error is None
        assert poll_tracker.idle(now) == 0.0
    assert not reread(poll_tracker.within)
    assert poll_tracker.error is None
    assert poll_tracker.idle(7.0) == 2.0
    with pytest.raises(IllegalStateError), poll_tracker, poll_tracker:
        raise IllegalStateError("the listener passes it on")
    assert not reread(poll_tracker.within)
    assert isinstance(poll_tracker.error, IllegalStateError)


def test_a_call_within_another_does_not_hide_what_the_one_before_raised() -> None:
    poll_tracker = PollTracker(lambda: 0.0)
    with pytest.raises(TopicAuthorizationError), poll_tracker:
        raise TopicAuthorizationError(topic="t")
    with poll_tracker:
        with poll_tracker:
            pass
        assert isinstance(poll_tracker.error, TopicAuthorizationError)
    assert poll_tracker.error is None


def test_a_wakeup_is_no_failure() -> None:
    poll_tracker = PollTracker(lambda: 0.0)
    with pytest.raises(WakeupError), poll_tracker:
        raise WakeupError
    assert poll_tracker.error is None


def test_a_stall_is_reported_once_and_again_after_progress() -> None:
    watched = Watched()
    watched.log.append(b"a", b"b")
    watched.pass_time(59)
    assert not watched.stalls
    watched.pass_time(30)
    assert [list(stall) for stall in watched.stalls] == [[TP]]
    assert watched.stalls[0][TP].reason is StallReason.NOT_POLLING
    assert watched.consumer.stalled == (TP,)
    watched.model.read(1)
    watched.log.append(b"c")
    watched.pass_time(30)
    assert reread(watched.consumer.stalled) == ()
    watched.pass_time(60)
    assert len(watched.stalls) == 2


def test_neither_the_end_nor_a_pause_is_a_stall() -> None:
    watched = Watched()
    watched.pass_time(100)
    watched.log.append(b"a")
    watched.model.subscription.pause([TP])
    watched.pass_time(100)
    watched.model.subscription.resume([TP])
    watched.pass_time(59)
    assert not watched.stalls
    watched.pass_time(5)
    assert len(watched.stalls) == 1


def test_a_partition_of_which_nothing_is_known_stalls_too() -> None:
    watched = Watched()
    watched.model.nodes.down = {1, 2, 3}
    watched.model.subscription.partitions[TP].high_watermark = -1
    watched.pass_time(61)
    assert len(watched.stalls) == 1
    assert watched.stalls[0][TP].lag is None


def test_a_stall_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    watched.log.append(b"a", b"b")
    watched.pass_time(70)
    (record,) = [record for record in caplog.records if "no progress" in record.message]
    assert "t-0" in record.message
    assert "2 records behind" in record.message
    assert "application not polling" in record.message


def outside_of_its_group(**options: Any) -> Watched:
    """A member that has nothing, and is on its way to its partitions."""
    watched = Watched(**options)
    watched.model.subscription.partitions = {}
    watched.model.subscription.topics = ("t",)
    watched.member.joining, watched.member.state = True, SimpleNamespace(value="preparing")
    return watched


def test_a_member_that_does_not_get_into_its_group_is_a_stall_without_a_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = outside_of_its_group()
    watched.coordinator.node, watched.coordinator.last_error = None, KafkaError("nobody coordinates it")
    watched.pass_time(60)
    assert not watched.stalls
    watched.pass_time(30)
    assert watched.stalls == [{}]
    (record,) = [record for record in caplog.records if "nothing to read" in record.message]
    assert "preparing" in record.message
    assert "nobody coordinates it" in record.message
    health = watched.consumer
    assert health.group_stalled
    assert health.group_error is watched.coordinator.last_error
    watched.coordinator.node, watched.member.joining = 7, False
    watched.pass_time(1)
    health = watched.consumer
    assert not health.group_stalled
    assert health.group_error is None
    watched.member.joining = True
    watched.pass_time(62)
    assert watched.stalls == [{}, {}]


@pytest.mark.parametrize("reason", ["a partition is read", "nothing is subscribed to", "no group", "never"])
def test_a_member_that_need_not_get_in_has_not_stalled(reason: str) -> None:
    options: dict[str, dict[str, Any]] = {"no group": {"in_group": False}, "never": {"stall_timeout_ms": 0}}
    watched = outside_of_its_group(**options.get(reason, {}))
    if reason == "a partition is read":
        watched.model.subscription.partitions = {TP: PartitionState(TP)}
    elif reason == "nothing is subscribed to":
        watched.model.subscription.topics = None
    watched.pass_time(200, fetching=False)
    assert {} not in watched.stalls


def test_a_callback_that_fails_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail(stalled: object) -> None:
        raise ValueError("the application's")

    watched = Watched(on_stall=fail)
    watched.log.append(b"a")
    watched.pass_time(70)
    assert "on_stall failed" in caplog.text


def test_metrics_show_each_partition_and_forget_those_that_are_gone() -> None:
    watched = Watched()
    watched.log.append(b"a", b"b")
    watched.pass_time(1)
    watched.model.read()
    watched.log.append(b"c")
    watched.pass_time(5)
    watched.gauges.publish(watched.model.now)
    shown = watched.metrics.snapshot()
    labels = "{partition=0,topic=t}"
    assert shown[f"records_lag{labels}"] == 1
    assert shown[f"records_lead{labels}"] == 2
    assert shown[f"position{labels}"] == 2
    assert shown[f"end_offset{labels}"] == 3
    assert shown["stall_reason{partition=0,reason=application not polling,topic=t}"] == 1
    assert shown["records_lag_max"] == 1
    watched.model.subscription.assign([])
    watched.gauges.publish(watched.model.now)
    assert not [name for name in watched.metrics.snapshot() if "topic=t" in name]
