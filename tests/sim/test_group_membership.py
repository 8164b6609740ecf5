"""A group whose members come, go, die and dawdle, whose coordinator moves, on a network that fails, by seed."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from kclient.consumer.group.classic.states import MemberState
from kclient.errors import MaxPollIntervalExceededError
from kclient.types import TopicPartition
from tests.sim.group_runs import STORMY, GroupRun
from tests.support.engines.groups import GroupCluster, Owner
from tests.support.engines.network import NO_FAULTS, Faults


class Run(GroupRun[GroupCluster]):
    """One seeded run; with `static`, most members are static and come back under their names."""

    stable = MemberState.STABLE
    cluster_type = GroupCluster

    def __init__(self, seed: int, strategy: str, faults: Faults = STORMY, *, static: bool = False) -> None:
        super().__init__(seed, faults)
        self.owner_options = {"partition_assignment_strategy": strategy}
        self.names = [f"static-{number}" for number in range(8)] if static else []

    def join(self, topics: Any = ("t", "u"), **options: Any) -> Owner:
        if self.names and self.random.random() < 0.7:
            used = {owner.name for owner in self.owners}
            options["group_instance_id"] = self.random.choice([name for name in self.names if name not in used])
        return super().join(topics, **options)

    def poll(self) -> None:
        super().poll()
        for owner in [owner for owner in self.owners if owner.fenced]:
            # A JoinGroup that was late came after its own repetition: a coordinator cannot tell whose it is.
            assert not owner.owned
            self.owners.remove(owner)
            owner.leave()

    def disturb(self, action: float) -> None:
        if action < 0.16:
            self.random.choice(self.owners).group.coordination.enforce_rebalance("")
        elif action < 0.17 and not self.names:
            # A static leader that comes back without assigning (KIP-814) cannot see what grew while it was away.
            self.cluster.topics["t"] = min(12, self.cluster.topics["t"] + 1)
            for owner in self.owners:
                owner.engine.metadata.request_update()


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
@pytest.mark.parametrize("number", range(6))
def test_no_partition_has_two_owners_and_all_are_read_once_it_is_quiet(
    number: int, strategy: str, rng: random.Random
) -> None:
    run = Run(rng.randrange(2**32), strategy)
    run.storm()
    run.calm_down()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("number", range(4))
def test_static_members_come_back_and_share_nothing_either(number: int, strategy: str, rng: random.Random) -> None:
    run = Run(rng.randrange(2**32), strategy, static=True)
    run.storm()
    run.join()
    run.calm_down()


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_coordinator_that_declines_for_minutes_is_not_stormed(strategy: str) -> None:
    assert Run(1, strategy, NO_FAULTS).decline_for_minutes() < 400


def test_cooperative_member_continues_to_read_what_it_keeps_while_others_join() -> None:
    first, kept = Run(1, "cooperative-sticky", NO_FAULTS).kept_while_another_joins()
    assert len(kept) == 4
    assert {kind for kind, _ in first.listener.heard} == {"assigned", "revoked"}


def test_poll_interval_that_ends_during_a_rebalance_takes_the_leader_out() -> None:
    run = Run(1, "range", NO_FAULTS)
    leader = run.join()
    run.simulation.run(
        5, until=lambda: leader.poll() is not None and leader.group.member.state is MemberState.COMPLETING
    )
    other = run.join()
    run.dawdling[leader] = run.simulation.now + 60
    for _ in range(300):
        run.poll()
        run.simulation.run(0.2)
    assert len(other.owned) == 8
    assert [type(error) for error in leader.errors] in ([], [MaxPollIntervalExceededError])
    run.calm_down()
    assert [type(error) for error in leader.errors] == [MaxPollIntervalExceededError]


def test_an_expired_session_loses_the_partitions_before_they_are_assigned_again() -> None:
    run = Run(1, "cooperative-sticky", NO_FAULTS)
    first, second = run.join(), run.join()
    run.calm_down()
    run.simulation.drop(first.engine)  # its network thread is stuck
    for _ in range(100):
        second.poll()
        run.simulation.run(0.2)
    assert len(second.owned) == 8
    assert first.listener.owned
    assert not run.cluster.accepts(first)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_static_member_with_another_subscription_causes_a_rebalance(strategy: str) -> None:
    run = Run(1, strategy, NO_FAULTS)
    leader = run.join()
    run.calm_down()
    static = run.join(["u"], group_instance_id="s")

    def owns() -> bool:
        run.poll()
        return bool(static.owned)

    run.simulation.run(60, until=owns)
    run.calm_down()
    run.owners.remove(static)
    assert {tp.topic for tp in static.owned} == {"u"}
    static.die()
    run.join(["t"], group_instance_id="s")  # is given what its predecessor had, without a rebalance
    before = run.simulation.requests
    run.calm_down()
    assert run.simulation.requests - before < 100
    assert {tp.topic for tp in leader.owned} == {"t", "u"}


def test_topics_that_appear_join_by_pattern_with_one_rebalance() -> None:
    run = Run(1, "range", NO_FAULTS)
    owner = Owner(run.simulation, re.compile("[tv].*"))
    run.owners.append(owner)
    run.simulation.run(20, until=lambda: owner.poll() is True and len(owner.owned) == 6)
    run.cluster.topics["v1"] = 2
    owner.engine.metadata.request_update()
    run.simulation.run(20, until=lambda: owner.poll() is True and len(owner.owned) == 8)
    assert len(owner.owned) == 8
    del run.cluster.topics["v1"]
    owner.engine.metadata.request_update()
    run.simulation.run(20, until=lambda: owner.poll() is True and len(owner.owned) == 6)
    assert owner.owned == {TopicPartition("t", number) for number in range(6)}


def test_an_interrupted_listener_is_not_called_again_and_the_rebalance_continues() -> None:
    run = Run(1, "range", NO_FAULTS)
    owner = run.join()
    run.calm_down()
    listener, calls = owner.listener, []

    class Interrupted(BaseException):
        """As KeyboardInterrupt, which a test cannot raise."""

    def interrupt(partitions: object) -> None:
        calls.append(partitions)
        listener.owned.clear()
        raise Interrupted

    listener.on_revoked = interrupt  # type: ignore[method-assign]
    owner.group.coordination.enforce_rebalance("")
    with pytest.raises(Interrupted):
        run.simulation.run(5, until=lambda: owner.poll(1.0) is None and False)
    owner.interrupt()
    run.simulation.run(20, until=lambda: owner.poll(1.0) is True and len(listener.heard) == 2)
    assert len(calls) == 1
    assert owner.owned == listener.owned == listener.heard[1][1]
    assert len(owner.owned) == 8
