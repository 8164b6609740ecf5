"""A group whose members come, go, die and dawdle, whose coordinator moves, on a network that fails: one seeded run.

What is done at random is the same for both protocols, but for what each of them knows besides (`disturb`). Elsewhere:
offsets, and groups of many (`test_group_of_twenty`).
"""

from __future__ import annotations

import enum
import random
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from kclient.types import TopicPartition
from tests.support.engines.groups import GroupCluster, Owner
from tests.support.engines.network import NO_FAULTS, Faults, Simulation

STORMY = Faults(
    refuse=0.1,
    lose_request=0.01,
    lose_answer=0.02,
    cut_before=0.02,
    cut_after=0.02,
    late=0.02,
    late_delay=(0.5, 20.0),
)

Cluster = TypeVar("Cluster", bound=GroupCluster)


class GroupRun(ABC, Generic[Cluster]):
    """One seeded run.

    Attributes:
        owners: the members that are there.
        dawdling: until when some of them ask for nothing.
    """

    stable: enum.Enum
    """The state of a member that has what it is to have."""
    cluster_type: type[Cluster]
    owner_options: dict[str, Any]

    def __init__(self, seed: int, faults: Faults) -> None:
        self.simulation = Simulation(seed, faults)
        self.random = random.Random(seed)
        self.cluster = self.cluster_type(self.simulation, t=6, u=2)
        self.owners: list[Owner] = []
        self.dawdling: dict[Owner, float] = {}

    # -- what has to hold

    def check(self, owner: Owner, tp: TopicPartition) -> None:
        """Of two that have a partition one must have been shut out: nothing of it can be committed.

        As a rule that is the earlier one; it is the later one if it comes late to what it was given long ago, and has
        not heard that its session is over.
        """
        for other in self.owners:
            if other is not owner and tp in other.listener.owned and self.cluster.accepts(other):
                assert not self.cluster.accepts(owner), f"{tp} has two owners, and both could commit"

    # -- what happens

    def join(self, topics: Any = ("t", "u"), **options: Any) -> Owner:
        owner = Owner(self.simulation, topics, check=self.check, **self.owner_options, **options)
        self.owners.append(owner)
        return owner

    def poll(self) -> None:
        for owner in self.owners:
            if self.dawdling.get(owner, 0.0) <= self.simulation.now:
                owner.poll(self.random.choice([0.0, 0.5]))

    @abstractmethod
    def disturb(self, action: float) -> None:
        """Do something that only this protocol knows, or nothing; from 0 to 1."""

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
        else:
            self.disturb(action)
        self.poll()
        self.simulation.run(rng.choice([0.01, 0.2, 1.0]))

    def storm(self, steps: int = 300) -> None:
        """Three members to begin with, and then whatever happens."""
        for _ in range(3):
            self.join()
        for _ in range(steps):
            self.step()

    def calm_down(self) -> None:
        """No further faults: soon everything is read, by one member each."""
        self.simulation.faults = NO_FAULTS
        self.dawdling.clear()
        everything = sorted(
            TopicPartition(topic, n) for topic, count in self.cluster.topics.items() for n in range(count)
        )

        def settled() -> bool:
            owned = sorted(tp for owner in self.owners for tp in owner.owned)
            return owned == everything and all(owner.group.member.state is self.stable for owner in self.owners)

        end = self.simulation.now + 600
        while not settled():
            assert self.simulation.now < end, [
                (owner.group.member.state, sorted(owner.owned), owner.errors[-2:]) for owner in self.owners
            ]
            for owner in self.owners:
                owner.engine.metadata.request_update()
            self.poll()
            self.simulation.run(0.2)
        for owner in self.owners:
            assert owner.owned == owner.listener.owned

    # -- what both protocols have to stand

    def decline_for_minutes(self) -> int:
        """Move the coordinator to a broker that does not exist, and back; return the requests in between."""
        self.join()
        self.calm_down()
        moved, before = self.cluster.coordinator, self.simulation.requests
        self.cluster.coordinator = 99  # FindCoordinator names a broker that does not exist
        self.simulation.brokers["b99"] = self.simulation.brokers["b1"]
        for _ in range(600):
            self.poll()
            self.simulation.run(0.2)
        requests = self.simulation.requests - before
        self.cluster.coordinator = moved
        self.calm_down()
        return requests

    def kept_while_another_joins(self) -> tuple[Owner, set[TopicPartition]]:
        """The first member, and what it had all the while that a second one joined."""
        first = self.join()
        self.calm_down()
        kept = first.owned
        self.join()
        for _ in range(200):
            self.poll()
            self.simulation.run(0.05)
            kept &= first.owned
        return first, kept
