"""Sessions of brokers, fencing, and how long a broker that wants to shut down has to wait."""

from __future__ import annotations

import pytest

from kclient import errors
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from refbroker.controller.liveness import STATES, BrokerState, HeartbeatEvent, Liveness
from tests.support.controlled_cluster import SESSION_MS, ControlledCluster, directories_of, registration


@pytest.fixture(name="cluster")
def three_brokers() -> ControlledCluster:
    cluster = ControlledCluster()
    for node in (1, 2, 3):
        cluster.start(node)
    return cluster


def test_a_broker_is_fenced_when_its_session_has_expired(cluster: ControlledCluster) -> None:
    cluster.now_ms += SESSION_MS
    cluster.expire()
    assert not cluster.image.brokers[1].fenced
    cluster.beat(2)
    cluster.beat(3)
    cluster.now_ms += 1
    cluster.expire()
    assert [node for node, one in cluster.image.brokers.items() if one.fenced] == [1]


def test_brokers_are_fenced_one_after_the_other(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2, 3], min_insync_replicas="3")
    cluster.now_ms += SESSION_MS + 1
    cluster.expire()
    state = cluster.partition("t")
    assert (state.isr, state.eligible_leader_replicas, state.last_known_elr) == ([], [1, 2, 3], [3])


def test_a_session_of_a_former_incarnation_ends_without_a_consequence(cluster: ControlledCluster) -> None:
    cluster.now_ms += SESSION_MS + 1
    cluster.start(1)
    cluster.beat(2)
    cluster.beat(3)
    end = len(cluster.log)
    cluster.expire()
    assert len(cluster.log) == end


def test_a_new_controller_gives_each_unfenced_broker_a_whole_session(cluster: ControlledCluster) -> None:
    cluster.beat(3, fence=True)
    now = cluster.now_ms + 100 * SESSION_MS
    again = Liveness(cluster.image, SESSION_MS, now)
    sessions = [again.has_session(node, one.broker_epoch, now) for node, one in cluster.image.brokers.items()]
    assert sessions == [True, True, False]
    assert again.expired(now + SESSION_MS) is None
    assert again.expired(now + SESSION_MS + 1) == 1


def test_a_broker_is_unfenced_when_it_has_read_its_registration() -> None:
    cluster = ControlledCluster()
    epoch = cluster.register(registration(1, incarnation=1))
    offset = cluster.image.next_offset - 1
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=offset - 1)
    behind = cluster.heartbeat(request).response
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    request.current_metadata_offset, request.want_fence = offset, True
    waiting = cluster.heartbeat(request).response
    assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
    request.want_fence = False
    running = cluster.heartbeat(request).response
    assert (running.is_caught_up, running.is_fenced, running.should_shut_down) == (True, False, False)


def test_records_before_a_registration_count_as_part_of_it(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2], min_insync_replicas="2")
    cluster.now_ms += SESSION_MS + 1
    cluster.expire()
    epoch = cluster.register(registration(1, incarnation=5))
    offset = cluster.image.next_offset - 1
    assert epoch == offset - 1
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch)
    assert not cluster.heartbeat(request).response.is_caught_up
    request.current_metadata_offset = offset
    assert cluster.heartbeat(request).response.is_caught_up


@pytest.mark.parametrize("epoch", [-1, 10**9])
def test_a_heartbeat_of_another_epoch_is_refused(cluster: ControlledCluster, epoch: int) -> None:
    for node in (1, 9):
        with pytest.raises(errors.StaleBrokerEpochError):
            cluster.heartbeat(BrokerHeartbeatRequest(broker_id=node, broker_epoch=epoch))


def test_a_broker_without_leaderships_shuts_down_at_once(cluster: ControlledCluster) -> None:
    answer = cluster.beat(1, shut_down=True).response
    assert (answer.is_fenced, answer.should_shut_down) == (True, True)
    assert cluster.image.brokers[1].fenced


def test_a_leader_shuts_down_when_active_brokers_know_the_new_leaders(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2])
    assert cluster.beat(1, shut_down=True).state is BrokerState.CONTROLLED_SHUTDOWN
    moved = cluster.image.next_offset - 1
    for node, offset, may in ((2, moved, False), (3, moved - 1, False), (3, moved, True)):
        cluster.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=node,
                broker_epoch=cluster.image.brokers[node].broker_epoch,
                current_metadata_offset=offset,
            )
        )
        assert cluster.beat(1, shut_down=True).response.should_shut_down is may


def test_a_leader_that_nobody_can_replace_waits(cluster: ControlledCluster) -> None:
    cluster.create("t", [1])
    cluster.beat(2, fence=True)
    cluster.beat(3, fence=True)
    answer = cluster.beat(1, shut_down=True).response
    # No replica is left to lead, so the partition has no leader, and nothing holds the broker up now.
    assert (answer.should_shut_down, cluster.partition("t").leader) == (False, -1)
    assert cluster.beat(1, shut_down=True).response.should_shut_down


def test_fencing_ends_a_controlled_shutdown(cluster: ControlledCluster) -> None:
    cluster.create("t", [1, 2])
    cluster.beat(1, shut_down=True)
    cluster.now_ms += SESSION_MS + 1
    cluster.expire()
    assert cluster.liveness.brokers[1].state is BrokerState.FENCED
    assert cluster.beat(1, shut_down=True).response.should_shut_down


def test_directories_that_a_heartbeat_reports_are_recorded_once(cluster: ControlledCluster) -> None:
    (directory,) = directories_of(1)
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=cluster.image.brokers[1].broker_epoch,
        current_metadata_offset=cluster.image.next_offset,
        cordoned_log_dirs=[directory],
    )
    assert [type(record).__name__ for record in cluster.heartbeat(request).records] == [
        "BrokerRegistrationChangeRecord"
    ]
    assert cluster.heartbeat(request).records == []
    assert cluster.image.brokers[1].record.cordoned_log_dirs == [directory]


def test_the_check_for_expired_sessions_is_eight_times_as_frequent_as_they_are(cluster: ControlledCluster) -> None:
    assert cluster.liveness.check_interval_ms == SESSION_MS // 8
    assert Liveness(cluster.image, 3, 0).check_interval_ms == 1


def test_a_broker_that_may_shut_down_stays_in_no_state() -> None:
    assert STATES.followers(BrokerState.SHUTDOWN_NOW) == frozenset()
    assert all(STATES.allows(state, HeartbeatEvent.SHUT_DOWN) for state in STATES.states[:-1])


def test_the_session_of_the_broker_in_the_controllers_process_does_not_end(cluster: ControlledCluster) -> None:
    now = cluster.now_ms
    liveness = Liveness(cluster.image, SESSION_MS, now, local=2)
    liveness.contact(2, cluster.image.brokers[2].broker_epoch, now)
    expired = []
    while (node := liveness.expired(now + SESSION_MS + 1)) is not None:
        expired.append(node)
    assert expired == [1, 3]
    assert liveness.has_session(2, cluster.image.brokers[2].broker_epoch, now + SESSION_MS + 1)


def test_no_broker_waits_for_the_one_of_the_controllers_process(cluster: ControlledCluster) -> None:
    cluster.liveness = Liveness(cluster.image, SESSION_MS, cluster.now_ms, local=2)
    cluster.create("t", [1, 2])
    assert not cluster.beat(1, shut_down=True).response.should_shut_down
    cluster.beat(3)
    assert cluster.beat(1, shut_down=True).response.should_shut_down
