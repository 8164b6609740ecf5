"""A group of the consumer protocol whose members come, go, die and dawdle, on a network that fails, by seed."""

from __future__ import annotations

import random

import pytest

from kclient.consumer.group.consumer_protocol.states import ConsumerState
from kclient.errors import MaxPollIntervalExceededError
from kclient.net.operation import Operation
from tests.sim.group_runs import STORMY, GroupRun
from tests.support.engines.consumer_groups import ConsumerCluster
from tests.support.engines.network import NO_FAULTS, Faults

# A coordinator tells a target once: one that heard a heartbeat of a connection which had ended before, whose answer
# nobody gets, would wait indefinitely. It does not happen but in a simulation.
ORDERLY = STORMY._replace(outlives=False)


class Run(GroupRun[ConsumerCluster]):
    """One seeded run."""

    stable = ConsumerState.STABLE
    cluster_type = ConsumerCluster

    def __init__(self, seed: int, faults: Faults = ORDERLY) -> None:
        self.owner_options = {"group_protocol": "consumer"}
        super().__init__(seed, faults)

    def disturb(self, action: float) -> None:
        if action < 0.16:
            self.random.choice(self.owners).subscribe(self.random.choice(["t", ["t", "u"]]))
        elif action < 0.17:
            self.cluster.topics["t"] = min(12, self.cluster.topics["t"] + 1)
            self.cluster.divide()

    def calm_down(self) -> None:
        for owner in self.owners:
            owner.subscribe(["t", "u"])
        super().calm_down()


@pytest.mark.parametrize("number", range(12))
def test_no_partition_has_two_owners_and_all_are_read_once_it_is_quiet(number: int, rng: random.Random) -> None:
    run = Run(rng.randrange(2**32))
    run.storm()
    run.calm_down()


def test_what_stays_is_read_all_the_while() -> None:
    first, kept = Run(1, NO_FAULTS).kept_while_another_joins()
    assert len(kept) == 4
    assert {kind for kind, _ in first.listener.heard} == {"assigned", "revoked"}
    assert first.commits == 1


def test_application_that_is_too_slow_learns_of_it_once_and_joins_again() -> None:
    run = Run(1, NO_FAULTS)
    slow = run.join()
    other = run.join()
    run.calm_down()
    run.dawdling[slow] = run.simulation.now + 60
    for _ in range(250):
        run.poll()
        run.simulation.run(0.2)
    assert len(other.owned) == 8
    assert slow.listener.owned
    assert not run.cluster.accepts(slow)
    run.calm_down()
    assert [type(error) for error in slow.errors] == [MaxPollIntervalExceededError]
    assert [kind for kind, _ in slow.listener.heard].count("lost") == 1


def test_coordinator_that_declines_for_minutes_is_not_stormed() -> None:
    assert Run(1, NO_FAULTS).decline_for_minutes() < 400


def test_member_with_a_slow_commit_still_heartbeats_and_what_goes_waits_for_it() -> None:
    run = Run(1, NO_FAULTS)
    first = run.join()
    run.calm_down()
    second = run.join()
    done = False

    def slow(deadline: float) -> Operation[bool]:
        yield from ()
        return done

    first.commit_before_rebalance = slow  # type: ignore[method-assign]
    for _ in range(75):
        run.poll()
        run.simulation.run(0.2)
    assert len(first.owned) == 8
    assert not second.owned
    done = True
    run.calm_down()
    assert [kind for kind, _ in first.listener.heard] == ["assigned", "revoked", "assigned"]
