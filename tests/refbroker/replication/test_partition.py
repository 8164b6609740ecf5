"""The roles of a replica, and what a leader decides about followers, the ISR and the high watermark."""

from __future__ import annotations

import pytest

from kclient.errors import (
    FencedLeaderEpochError,
    IllegalStateError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    UnknownLeaderEpochError,
)
from refbroker.replication.isr import IsrState
from refbroker.replication.partition import Acks, Role
from tests.refbroker.replication.machines import LAG_MS, Replica, state

STALE, NOT_ATTEMPTED, INELIGIBLE, FENCED, UNKNOWN_SERVER_ERROR = 95, 55, 107, 74, -1


# Roles


def test_new_leader_assigns_its_epoch_at_the_log_end_before_any_record() -> None:
    replica = Replica(end=7)
    led = replica.partition.lead(state(leader_epoch=3), replica.now_ms)
    assert led is not None
    assert (led.is_new_epoch, led.epoch, led.start_offset) == (True, 3, 7)


def test_metadata_of_the_same_epoch_assigns_nothing() -> None:
    replica = Replica(end=7)
    replica.lead(leader_epoch=3)
    replica.append(2)
    led = replica.partition.lead(state(leader_epoch=3, partition_epoch=1), replica.now_ms)
    assert led is not None
    assert (led.is_new_epoch, led.epoch, led.start_offset) == (False, None, 7)


def test_metadata_older_than_an_answer_of_the_controller_is_ignored() -> None:
    replica = Replica()
    replica.lead(partition_epoch=4)
    assert replica.partition.lead(state(partition_epoch=3), replica.now_ms) is None
    assert replica.partition.follow(state(partition_epoch=3, leader=2)) is None
    assert replica.partition.is_leader


def test_follower_begins_again_in_each_leader_epoch_also_with_the_same_leader() -> None:
    replica = Replica()
    followed = replica.partition.follow(state(leader=2))
    assert followed is not None
    assert followed.is_new_epoch
    same = replica.partition.follow(state(leader=2, partition_epoch=1))
    assert same is not None
    assert not same.is_new_epoch
    later = replica.partition.follow(state(leader=2, leader_epoch=1, partition_epoch=2))
    assert later is not None
    assert (later.is_new_epoch, later.leader, later.leader_epoch) == (True, 2, 1)


def test_replica_whose_disk_failed_takes_no_role_until_the_next_start() -> None:
    replica = Replica()
    replica.lead()
    replica.partition.fail()
    assert replica.role is Role.OFFLINE
    with pytest.raises(IllegalStateError, match="offline"):
        replica.partition.lead(state(leader_epoch=1, partition_epoch=1), replica.now_ms)


def test_removed_replica_can_be_assigned_again() -> None:
    replica = Replica()
    replica.lead(leader_epoch=4, partition_epoch=9)
    replica.partition.remove()
    before = replica.role
    replica.partition.removed()
    assert (before, replica.role) == (Role.DELETING, None)
    assert replica.partition.follow(state(leader=2)) is not None


# High watermark


def test_single_replica_moves_the_high_watermark_with_each_append() -> None:
    replica = Replica()
    replica.lead(replicas=[1], isr=[1])
    replica.append(3)
    assert replica.log.high_watermark == 3


def test_high_watermark_is_the_smallest_log_end_of_the_replicas_in_sync() -> None:
    replica = Replica()
    replica.lead()
    replica.append(5)
    assert replica.log.high_watermark == 0
    replica.fetch(2, 4)
    assert replica.log.high_watermark == 0
    replica.fetch(3, 2)
    assert replica.log.high_watermark == 2
    replica.fetch(3, 5)
    assert replica.log.high_watermark == 4


def test_high_watermark_does_not_go_back_when_a_follower_does() -> None:
    replica = Replica()
    replica.lead()
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    replica.fetch(3, 1)
    assert replica.log.high_watermark == 5


def test_high_watermark_stands_below_min_insync_replicas() -> None:
    replica = Replica(min_isr=2)
    replica.lead(isr=[1])
    replica.append(3)
    assert replica.log.high_watermark == 0
    replica.partition.config = type(replica.partition.config)(LAG_MS, 1)
    replica.append()
    assert replica.log.high_watermark == 4


def test_min_insync_replicas_above_the_number_of_replicas_requires_all() -> None:
    replica = Replica(min_isr=5)
    replica.lead(replicas=[1, 2], isr=[1, 2])
    assert replica.partition.min_isr == 2


def test_high_watermark_waits_for_a_follower_that_is_about_to_join() -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    replica.append(2)
    assert replica.log.high_watermark == 2
    replica.fetch(2, 0)
    replica.fetch(2, 2)
    replica.append(3)
    assert replica.log.high_watermark == 2
    replica.now_ms += LAG_MS + 1
    replica.append()
    assert replica.log.high_watermark == 2, "the proposal to add it is on its way"


def test_high_watermark_does_not_wait_for_an_ineligible_follower() -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    replica.append(2)
    replica.brokers[2].fenced = True
    replica.fetch(2, 1)
    replica.fetch(2, 2)
    replica.append(3)
    assert replica.log.high_watermark == 5


# Joining and leaving the ISR


def test_follower_joins_when_it_has_reached_the_high_watermark() -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    replica.append(4)
    assert replica.fetch(2, 3) is None
    proposal = replica.fetch(2, 4)
    assert proposal is not None
    assert proposal.isr == ((1, 5), (2, 5))
    assert replica.partition.isr.state is IsrState.PENDING_EXPAND
    assert replica.partition.isr.maximal == {1, 2}


def test_follower_does_not_join_before_the_start_of_the_leader_epoch() -> None:
    replica = Replica(end=5)
    replica.log.high_watermark = 2
    replica.lead(isr=[1, 2], leader_epoch=1)
    assert replica.fetch(3, 2) is None, "what lies between may be committed by the previous leader"
    assert replica.fetch(3, 5) is not None


@pytest.mark.parametrize(
    ("fenced", "shutting_down", "broker_epoch", "joins"),
    [
        pytest.param(False, False, 5, True, id="active"),
        pytest.param(False, False, -1, True, id="no epoch"),
        pytest.param(True, False, 5, False, id="fenced"),
        pytest.param(False, True, 5, False, id="shutting down"),
        pytest.param(False, False, 4, False, id="earlier epoch"),
        pytest.param(False, False, 6, False, id="later epoch"),
    ],
)
def test_only_an_active_broker_of_the_present_registration_joins(
    fenced: bool, shutting_down: bool, broker_epoch: int, joins: bool
) -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    replica.brokers[2].fenced, replica.brokers[2].shutting_down = fenced, shutting_down
    assert (replica.fetch(2, 0, broker_epoch=broker_epoch) is not None) is joins


def test_follower_that_was_not_caught_up_within_the_lag_time_leaves() -> None:
    replica = Replica()
    replica.lead()
    replica.append(5)
    replica.fetch(2, 5)
    replica.fetch(3, 4)
    replica.now_ms += LAG_MS
    assert replica.partition.propose_shrink(replica.now_ms) is None
    replica.now_ms += 1
    assert replica.partition.out_of_sync(replica.now_ms) == {3}, "2 has everything, however long ago it fetched"
    proposal = replica.partition.propose_shrink(replica.now_ms)
    assert proposal is not None
    assert proposal.members == {1, 2}
    assert replica.partition.isr.maximal == {1, 2, 3}, "it counts until its removal is committed"
    assert replica.partition.propose_shrink(replica.now_ms) is None


def test_follower_under_constant_load_stays_if_it_reaches_the_earlier_log_end() -> None:
    replica = Replica()
    replica.lead()
    for _ in range(10):
        replica.append(5)
        replica.fetch(2, replica.log.log_end_offset)
        replica.fetch(3, replica.log.log_end_offset - 5)
        replica.now_ms += LAG_MS // 2
    assert replica.partition.out_of_sync(replica.now_ms) == frozenset()


def test_follower_in_sync_has_the_lag_time_from_the_begin_of_an_epoch() -> None:
    replica = Replica(end=5)
    replica.lead(leader_epoch=1, isr=[1, 2])
    assert replica.partition.out_of_sync(replica.now_ms + LAG_MS) == frozenset()
    assert replica.partition.out_of_sync(replica.now_ms + LAG_MS + 1) == {2}


# Answers of the controller


def test_accepted_expansion_is_committed() -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    proposal = replica.fetch(2, 0)
    assert proposal is not None
    assert replica.answer(proposal) is None
    assert replica.partition.isr.committed == {1, 2}
    assert (replica.partition.isr.state, replica.partition.partition_epoch) == (IsrState.COMMITTED, 1)


def test_accepted_shrink_moves_the_high_watermark() -> None:
    replica = Replica()
    replica.lead()
    replica.append(5)
    replica.fetch(2, 5)
    replica.now_ms += LAG_MS + 1
    proposal = replica.partition.propose_shrink(replica.now_ms)
    assert proposal is not None
    assert replica.log.high_watermark == 0
    replica.answer(proposal)
    assert replica.log.high_watermark == 5


@pytest.mark.parametrize("error_code", [NOT_ATTEMPTED, INELIGIBLE])
def test_refusal_that_was_certainly_not_applied_restores_the_committed_isr(error_code: int) -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    proposal = replica.fetch(2, 0)
    assert proposal is not None
    assert replica.answer(proposal, error_code) is None
    assert replica.partition.isr.state is IsrState.COMMITTED
    assert replica.partition.isr.maximal == {1}


@pytest.mark.parametrize("error_code", [STALE, FENCED, 3, 100, 42, 108])
def test_uncertain_refusal_stays_pending_until_metadata_arrives(error_code: int) -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    proposal = replica.fetch(2, 0)
    assert proposal is not None
    assert replica.answer(proposal, error_code) is None
    assert replica.partition.isr.maximal == {1, 2}
    replica.lead(isr=[1, 2], partition_epoch=1)
    assert replica.partition.isr.state is IsrState.COMMITTED
    assert replica.partition.isr.committed == {1, 2}


def test_any_other_error_sends_the_same_proposal_again() -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    proposal = replica.fetch(2, 0)
    assert proposal is not None
    assert replica.answer(proposal, UNKNOWN_SERVER_ERROR) is proposal
    assert replica.partition.isr.is_pending


def test_answer_to_an_outdated_proposal_is_ignored() -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    proposal = replica.fetch(2, 0)
    assert proposal is not None
    replica.lead(isr=[1], partition_epoch=1)
    replica.answer(proposal, isr=(1, 2, 3))
    assert replica.partition.isr.committed == {1}


def test_metadata_of_the_known_partition_epoch_leaves_a_newer_proposal_pending() -> None:
    replica = Replica(min_isr=1)
    replica.lead(isr=[1])
    first = replica.fetch(2, 0)
    assert first is not None
    replica.answer(first)
    second = replica.fetch(3, 0)
    assert second is not None
    replica.lead(isr=[1, 2], partition_epoch=1)
    assert replica.partition.isr.maximal == {1, 2, 3}
    replica.answer(second)
    assert replica.partition.isr.committed == {1, 2, 3}


def test_leader_elected_again_knows_its_followers_unless_another_led_in_between() -> None:
    replica = Replica()
    replica.lead()
    replica.append(5)
    for node in (2, 3):
        replica.fetch(node, 4)
    replica.lead(leader_epoch=1, partition_epoch=1)
    assert replica.partition.followers[2].log_end_offset == 4
    replica.lead(leader_epoch=3, partition_epoch=3)
    assert replica.partition.followers[2].log_end_offset == -1


# Requests


def test_leader_epochs_of_requests_are_checked() -> None:
    replica = Replica()
    replica.lead(leader_epoch=3)
    replica.partition.check_leader()
    replica.partition.check_leader(3)
    with pytest.raises(FencedLeaderEpochError, match="leader epoch 2"):
        replica.partition.check_leader(2)
    with pytest.raises(UnknownLeaderEpochError, match="leader epoch 4"):
        replica.partition.check_leader(4)
    replica.partition.follow(state(leader=2, leader_epoch=4, partition_epoch=1))
    with pytest.raises(NotLeaderOrFollowerError):
        replica.partition.check_leader(4)


def test_fetches_of_others_than_followers_are_refused() -> None:
    replica = Replica()
    replica.lead()
    replica.partition.check_follower(2, 5, 0)
    replica.partition.check_follower(2, -1, 0)
    with pytest.raises(UnknownLeaderEpochError, match="broker 4 is not a replica"):
        replica.partition.check_follower(4, 5, 0)
    with pytest.raises(NotLeaderOrFollowerError, match="broker 4 is not a replica"):
        replica.partition.check_follower(4, 5, -1)
    with pytest.raises(NotLeaderOrFollowerError, match="broker epoch 4, which ended"):
        replica.partition.check_follower(2, 4, 0)


def test_latest_offset_is_not_available_before_the_high_watermark_reaches_the_epoch() -> None:
    replica = Replica(end=5)
    replica.lead(leader_epoch=1)
    with pytest.raises(OffsetNotAvailableError):
        replica.partition.check_latest_offset()
    replica.fetch(2, 5)
    replica.fetch(3, 5)
    replica.partition.check_latest_offset()


def test_acks_all_is_refused_before_the_append_below_min_insync_replicas() -> None:
    replica = Replica(min_isr=2)
    replica.lead(isr=[1])
    replica.partition.check_in_sync(1)
    with pytest.raises(NotEnoughReplicasError, match="requirement of 2"):
        replica.partition.check_in_sync(-1)


def test_acks_all_waits_for_the_high_watermark() -> None:
    replica = Replica()
    replica.lead()
    replica.append(2)
    replica.fetch(2, 2)
    assert replica.partition.acks_for(2, 0) is Acks.WAITING
    replica.fetch(3, 2)
    assert replica.partition.acks_for(2, 0) is Acks.REPLICATED


def test_acks_all_tells_that_the_isr_shrank_after_the_append() -> None:
    replica = Replica(min_isr=2)
    replica.lead(isr=[1, 2])
    replica.append(2)
    replica.fetch(2, 2)
    replica.lead(isr=[1], partition_epoch=1)
    assert replica.partition.acks_for(2, 0) is Acks.NOT_ENOUGH_REPLICAS


def test_acks_all_fails_when_another_broker_has_led_since() -> None:
    replica = Replica()
    replica.lead()
    replica.append(2)
    replica.partition.follow(state(leader=2, leader_epoch=1, partition_epoch=1))
    assert replica.partition.acks_for(2, 0) is Acks.NOT_LEADER
    replica.lead(leader_epoch=2, partition_epoch=2, isr=[1, 2])
    replica.fetch(2, 2)
    assert replica.partition.acks_for(2, 0) is Acks.NOT_LEADER


def test_low_watermark_is_the_smallest_log_start_of_the_live_replicas() -> None:
    replica = Replica()
    replica.lead()
    replica.log.log_start_offset = 7
    replica.append(9)
    for node, start in ((2, 5), (3, 3)):
        replica.partition.record_fetch(node, 9, start, 9, 5, replica.now_ms)
    assert replica.partition.low_watermark() == 3
    replica.brokers[3].fenced = True
    assert replica.partition.low_watermark() == 5
