"""A group of the consumer protocol whose members come, go, die and dawdle, on a network that fails, by seed."""

from __future__ import annotations

import random

import pytest

from kclient.consumer.group.consumer_states import ConsumerState
from kclient.errors import MaxPollExceeded
from kclient.net.operation import Operation
from kclient.types import TopicPartition
from tests.sim.consumer_groups import ConsumerCluster
from tests.sim.groups import Owner
from tests.sim.network import NO_FAULTS, Faults, Simulation
from tests.sim.test_group_membership import STORMY

# A coordinator tells a target once: one that heard a heartbeat of a connection which had ended before, whose answer
# nobody gets, would wait for ever. It does not happen but in a simulation.
ORDERLY = STORMY._replace(outlives=False)


class Run:
    """One seeded run."""

    def __init__(self, seed: int, faults: Faults = ORDERLY) -> None:
        self.simulation = Simulation(seed, faults)
        self.random = random.Random(seed)
        self.cluster = ConsumerCluster(self.simulation, t=6, u=2)
        self.owners: list[Owner] = []
        self.dawdling: dict[Owner, float] = {}

    def join(self, topics: object = ("t", "u"), **options: object) -> Owner:
        owner = Owner(self.simulation, topics, check=self.check, group_protocol="consumer", **options)
        self.owners.append(owner)
        return owner

    def check(self, owner: Owner, tp: TopicPartition) -> None:
        """Whoever still has what another one is given must have been shut out: nothing of it can be committed."""
        for other in self.owners:
            if other is not owner and tp in other.listener.owned:
                assert not self.cluster.accepts(other), f"{tp} has two owners, and the earlier one could commit"

    def poll(self) -> None:
        for owner in self.owners:
            if self.dawdling.get(owner, 0.0) <= self.simulation.now:
                owner.poll(self.random.choice([0.0, 0.5]))

    def step(self) -> None:
        rng = self.random
        action = rng.random()
        if not self.owners or (action < 0.03 and len(self.owners) < 6):
            self.join()
        elif action < 0.05 and len(self.owners) > 1:
            owner = self.owners.pop(rng.randrange(len(self.owners)))
            rng.choice([owner.leave, owner.die])()
        elif action < 0.07:
            self.cluster.move(rng.randint(1, 3))
        elif action < 0.09:
            self.dawdling[rng.choice(self.owners)] = self.simulation.now + rng.choice([5.0, 50.0])
        elif action < 0.15:
            rng.choice(self.owners).interrupt()
        elif action < 0.16:
            rng.choice(self.owners).subscribe(rng.choice(["t", ["t", "u"]]))
        elif action < 0.17:
            self.cluster.topics["t"] = min(12, self.cluster.topics["t"] + 1)
            self.cluster.divide()
        self.poll()
        self.simulation.run(rng.choice([0.01, 0.2, 1.0]))

    def calm_down(self) -> None:
        """No faults any more: soon everything is read, by one member each."""
        self.simulation.faults = NO_FAULTS
        self.dawdling.clear()
        for owner in self.owners:
            owner.subscribe(["t", "u"])
        everything = {TopicPartition(topic, n) for topic, count in self.cluster.topics.items() for n in range(count)}

        def settled() -> bool:
            owned = [tp for owner in self.owners for tp in owner.owned]
            return sorted(owned) == sorted(everything) and all(
                owner.group.member.state is ConsumerState.STABLE for owner in self.owners
            )

        end = self.simulation.now + 300
        while not settled():
            assert self.simulation.now < end, [
                (owner.group.member.state, sorted(owner.owned), owner.errors[-2:]) for owner in self.owners
            ]
            self.poll()
            self.simulation.run(0.2)
        for owner in self.owners:
            assert owner.owned == owner.listener.owned


@pytest.mark.parametrize("number", range(12))
def test_no_partition_has_two_owners_and_all_are_read_once_it_is_quiet(number: int, rng: random.Random) -> None:
    run = Run(rng.randrange(2**32))
    for _ in range(3):
        run.join()
    for _ in range(300):
        run.step()
    run.calm_down()


def test_what_stays_is_read_all_the_while() -> None:
    run = Run(1, NO_FAULTS)
    first = run.join()
    run.calm_down()
    kept = first.owned
    run.join()
    for _ in range(200):
        run.poll()
        run.simulation.run(0.05)
        kept &= first.owned
    assert len(kept) == 4
    assert {kind for kind, _ in first.listener.heard} == {"assigned", "revoked"}
    assert first.commits == 1


def test_application_that_is_too_slow_hears_of_it_once_and_joins_again() -> None:
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
    assert [type(error) for error in slow.errors] == [MaxPollExceeded]
    assert [kind for kind, _ in slow.listener.heard].count("lost") == 1


def test_coordinator_that_declines_for_minutes_is_not_stormed() -> None:
    run = Run(1, NO_FAULTS)
    run.join()
    run.calm_down()
    moved, before = run.cluster.coordinator, run.simulation.requests
    run.cluster.coordinator = 99  # FindCoordinator names a broker that is none
    run.simulation.brokers["b99"] = run.simulation.brokers["b1"]
    for _ in range(600):
        run.poll()
        run.simulation.run(0.2)
    assert run.simulation.requests - before < 400
    run.cluster.coordinator = moved
    run.calm_down()


def test_member_with_a_slow_commit_still_heartbeats_and_what_goes_waits_for_it() -> None:
    run = Run(1, NO_FAULTS)
    first = run.join()
    run.calm_down()
    second = run.join()
    done = False

    def slow(deadline: float) -> Operation[bool]:
        return done
        yield

    first.commit_before_rebalance = slow  # type: ignore[method-assign]
    for _ in range(75):
        run.poll()
        run.simulation.run(0.2)
    assert len(first.owned) == 8
    assert not second.owned
    done = True
    run.calm_down()
    assert [kind for kind, _ in first.listener.heard] == ["assigned", "revoked", "assigned"]
