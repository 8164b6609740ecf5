"""Registration of brokers, and the records by which they come and go."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest

from kclient import errors
from kclient.protocol.messages.broker_registration import BrokerRegistrationRequest
from refbroker.controller import brokers
from tests.support.controlled_cluster import SESSION_MS, ControlledCluster, directories_of, registration


@pytest.fixture(name="cluster")
def two_brokers() -> ControlledCluster:
    cluster = ControlledCluster()
    for node in (1, 2):
        cluster.start(node)
    cluster.create("t", [1, 2], min_insync_replicas="2")
    return cluster


def kinds(records: list[Any]) -> list[str]:
    return [type(record).__name__.removesuffix("Record") for record in records]


def expire_all(cluster: ControlledCluster) -> None:
    cluster.now_ms += SESSION_MS + 1
    cluster.expire()


def test_a_broker_registers_fenced_in_the_epoch_of_the_next_offset() -> None:
    cluster = ControlledCluster()
    end = cluster.image.next_offset
    assert cluster.register(registration(7, incarnation=1, rack="a")) == end
    found = cluster.image.brokers[7]
    assert (found.broker_epoch, found.fenced, found.in_controlled_shutdown) == (end, True, False)
    assert (found.endpoints, found.rack) == ({"PLAINTEXT": ("localhost", 9007)}, "a")
    assert found.record.log_dirs == directories_of(7)


def test_the_same_incarnation_amends_its_registration_and_keeps_its_epoch(cluster: ControlledCluster) -> None:
    known = cluster.image.brokers[1]
    request = registration(1, incarnation=0, rack="b")
    request.incarnation_id = known.incarnation_id
    end = len(cluster.log)
    assert cluster.register(request) == known.broker_epoch
    assert kinds(cluster.log[end:]) == ["RegisterBroker"]
    found = cluster.image.brokers[1]
    assert (found.broker_epoch, found.rack, found.fenced) == (known.broker_epoch, "b", False)
    assert cluster.partition("t").isr == [1, 2]


def test_a_second_broker_with_the_id_waits_until_the_session_has_expired(cluster: ControlledCluster) -> None:
    request = registration(1, incarnation=99)
    with pytest.raises(errors.DuplicateBrokerRegistrationError):
        cluster.register(request)
    cluster.now_ms += SESSION_MS + 1
    assert cluster.register(request) > 0


FEATURES = registration(1, incarnation=1).features


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        pytest.param({"cluster_id": "x"}, errors.InconsistentClusterIdError, id="cluster"),
        pytest.param({"is_migrating_zk_broker": True}, errors.BrokerIdNotRegisteredError, id="ZooKeeper"),
        pytest.param({"log_dirs": []}, errors.InvalidRegistrationError, id="no directory"),
        pytest.param({"log_dirs": [UUID(int=99)]}, errors.InvalidRegistrationError, id="reserved directory"),
        pytest.param({"log_dirs": directories_of(7) * 2}, errors.InvalidRegistrationError, id="directory twice"),
        pytest.param({"log_dirs": directories_of(2)}, errors.InvalidRegistrationError, id="another's directory"),
        pytest.param({"features": FEATURES[1:]}, errors.InvalidRegistrationError, id="no metadata.version"),
        pytest.param({"features": FEATURES[:1]}, errors.UnsupportedVersionError, id="feature missing"),
        pytest.param(
            {"features": [msgspec.structs.replace(FEATURES[0], max_supported_version=29), *FEATURES[1:]]},
            errors.UnsupportedVersionError,
            id="old metadata.version",
        ),
    ],
)
def test_a_registration_that_is_refused(cluster: ControlledCluster, changed: dict[str, Any], error: Any) -> None:
    end = len(cluster.log)
    with pytest.raises(error):
        cluster.register(msgspec.structs.replace(registration(7, incarnation=1), **changed))
    assert len(cluster.log) == end


def test_a_feature_that_the_cluster_does_not_have_is_accepted(cluster: ControlledCluster) -> None:
    request = registration(7, incarnation=1)
    request.features.append(
        BrokerRegistrationRequest.Feature(name="kraft.version", min_supported_version=0, max_supported_version=1)
    )
    cluster.register(request)
    assert cluster.image.brokers[7].record.features[-1].name == "kraft.version"


def test_a_clean_restart_keeps_the_broker_eligible(cluster: ControlledCluster) -> None:
    epoch = cluster.image.brokers[1].broker_epoch
    expire_all(cluster)
    assert cluster.partition("t").eligible_leader_replicas == [1, 2]
    end = len(cluster.log)
    cluster.register(registration(1, incarnation=50, previous=epoch))
    assert kinds(cluster.log[end:]) == ["RegisterBroker"]
    assert cluster.partition("t").eligible_leader_replicas == [1, 2]


@pytest.mark.parametrize(("version", "previous"), [(4, -1), (4, 1), (2, None)], ids=["none", "wrong", "old version"])
def test_after_a_crash_the_broker_is_removed_before_it_is_registered(
    cluster: ControlledCluster, version: int, previous: int | None
) -> None:
    epoch = cluster.image.brokers[1].broker_epoch if previous is None else previous
    expire_all(cluster)
    end = len(cluster.log)
    cluster.register(registration(1, incarnation=50, previous=epoch), version)
    assert kinds(cluster.log[end:]) == ["PartitionChange", "RegisterBroker"]
    assert cluster.partition("t").eligible_leader_replicas == [2]


def test_a_crash_that_no_session_noticed_removes_the_broker_from_the_in_sync_set(cluster: ControlledCluster) -> None:
    cluster.now_ms += SESSION_MS + 1
    cluster.register(registration(1, incarnation=50))
    state = cluster.partition("t")
    assert (state.leader, state.isr, state.eligible_leader_replicas) == (2, [2], [])


def test_below_level_17_a_registration_has_no_directories() -> None:
    cluster = ControlledCluster(level=16, has_eligible_leaders=False)
    cluster.register(msgspec.structs.replace(registration(1, incarnation=1), log_dirs=[]))
    assert cluster.image.brokers[1].record.log_dirs == []


def test_a_fenced_broker_first_loses_its_partitions(cluster: ControlledCluster) -> None:
    assert kinds(brokers.fence(cluster.plans, 1)) == ["PartitionChange", "BrokerRegistrationChange"]


def test_an_unfenced_broker_is_unfenced_before_it_leads(cluster: ControlledCluster) -> None:
    cluster.create("u", [1])
    expire_all(cluster)
    records = brokers.unfence(cluster.plans, 1)
    assert kinds(records) == ["BrokerRegistrationChange", "PartitionChange", "PartitionChange"]


def test_unregistering_removes_a_broker_from_in_sync_and_eligible_replicas(cluster: ControlledCluster) -> None:
    cluster.create("u", [2, 1])
    expire_all(cluster)
    cluster.beat(2)
    assert cluster.partition("t").eligible_leader_replicas == [1]
    cluster.commit(brokers.unregister(cluster.plans, 2))
    state = cluster.partition("t")
    assert (state.leader, state.replicas, 2 in cluster.image.brokers) == (-1, [1, 2], False)
    with pytest.raises(errors.BrokerIdNotRegisteredError):
        brokers.unregister(cluster.plans, 2)


def test_failed_directories_end_leaderships_before_they_are_removed(cluster: ControlledCluster) -> None:
    registered = cluster.image.brokers[1]
    unknown = [UUID(int=123_456)]
    assert brokers.take_offline(cluster.plans, registered, unknown) == []
    records = brokers.take_offline(cluster.plans, registered, [*directories_of(1), *unknown])
    assert kinds(records) == ["PartitionChange", "BrokerRegistrationChange"]
