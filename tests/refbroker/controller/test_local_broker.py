"""The start of the broker on the controller's node, with data of a cluster that had other brokers, too."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient.protocol.messages.describe_quorum import DescribeQuorumRequest
from kclient.protocol.messages.records.metadata_log import (
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from kclient.protocol.messages.unregister_broker import UnregisterBrokerRequest
from refbroker.controller.local_broker import stop_broker
from refbroker.metadata.directories import LOST
from refbroker.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from refbroker.metadata.image import PartitionState
from tests.support.broker_harness import Harness


def with_replica_on_2(harness: Harness, *isr: int, leader: int, fenced: bool = False) -> None:
    """Add a broker, which is not there, and a replica of `t` on it."""
    topic_id = harness.create("t")
    own = state(harness).directories[0]
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=[2, 1],
        isr=list(isr),
        leader=leader,
        directories=[UUID(int=222), own],
    )
    other = RegisterBrokerRecord(
        broker_id=2, broker_epoch=3, incarnation_id=UUID(int=2), fenced=fenced, log_dirs=[UUID(int=222)]
    )
    harness.broker.controller.append([other, change])


def state(harness: Harness) -> PartitionState:
    found: PartitionState | None = harness.broker.image.partition("t", 0)
    assert found is not None
    return found


async def test_a_follower_leads_when_the_session_of_the_leader_has_expired(harness: Harness) -> None:
    with_replica_on_2(harness, 2, 1, leader=2)
    harness.restart()
    # It was not stopped cleanly, so it has left the in-sync set.
    assert (state(harness).leader, state(harness).isr) == (2, [2])
    harness.clock.step(9001)
    harness.broker.controller.fence_expired()
    assert harness.broker.image.brokers[2].fenced
    assert (state(harness).leader, state(harness).isr) == (-1, [2])


async def test_a_leader_stays_the_leader_of_its_partitions(harness: Harness) -> None:
    with_replica_on_2(harness, 1, leader=1)
    harness.restart()
    assert (state(harness).leader, state(harness).isr) == (1, [1])


async def test_a_replica_that_was_not_in_sync_does_not_lead_after_a_start(harness: Harness) -> None:
    with_replica_on_2(harness, 2, leader=-1, fenced=True)
    harness.restart()
    assert (state(harness).leader, state(harness).isr) == (-1, [2])


async def test_a_clean_stop_leaves_the_broker_fenced_and_its_partitions_without_a_leader(harness: Harness) -> None:
    harness.create("t")
    stop_broker(harness.broker.controller)
    registered = harness.broker.image.brokers[1]
    assert (registered.fenced, registered.in_controlled_shutdown) == (True, True)
    assert (state(harness).leader, state(harness).isr) == (-1, [1])
    harness.restart()
    assert (state(harness).leader, state(harness).leader_epoch) == (1, 2)


@pytest.mark.parametrize(("clean", "leader"), [(True, 1), (False, -1)])
async def test_only_after_a_clean_stop_the_broker_remains_eligible(harness: Harness, clean: bool, leader: int) -> None:
    level = FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS_VERSION, feature_level=1)
    harness.broker.controller.append([level])
    with_replica_on_2(harness, leader=-1, fenced=True)
    harness.change("t", eligible_leader_replicas=[1, 2])
    harness.restart(clean=clean)
    assert state(harness).leader == leader
    assert sorted([*state(harness).isr, *state(harness).eligible_leader_replicas]) == ([1, 2] if clean else [2])


async def test_a_start_notes_in_which_directory_a_log_is(harness: Harness) -> None:
    topic_id = harness.create("t")
    (own,) = state(harness).directories
    harness.broker.controller.append(
        [PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=-1, directories=[LOST])]
    )
    harness.restart()
    assert (state(harness).leader, state(harness).directories) == (1, [own])


async def test_an_unregistered_broker_stops_and_starts_as_before(harness: Harness) -> None:
    harness.create("t")
    assert harness.send(UnregisterBrokerRequest(broker_id=1), 0).error_code == 0
    assert harness.send(DescribeQuorumRequest(), 2).error_code == 0
    harness.broker.directory_events.inform()
    stop_broker(harness.broker.controller)
    assert harness.broker.broker_epoch == -1
    harness.restart()
    assert (state(harness).leader, state(harness).isr) == (1, [1])
