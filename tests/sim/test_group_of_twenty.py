"""Twenty members that come, go, die, dawdle and are fenced, coordinators that move, and a network that fails: by seed.

What holds in every round: a partition has one owner, from the moment it is assigned until its revocation is over or it
is lost, except for members that were shut out, whose commits fail; what is committed never goes back, is never more
than what was processed, and nobody starts behind a record that nobody has processed. And once it is quiet everything
is read by somebody. KCLIENT_SIM_ROUNDS=1000 lets each run continue for longer than the default.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from kclient.consumer.group.classic.states import MemberState
from kclient.types import TopicPartition
from tests.sim.readers import CommittingCluster, Reader
from tests.support.engines.groups import Owner
from tests.support.engines.network import NO_FAULTS, Faults, Simulation
from tests.support.patience import GUARD

ROUNDS = int(os.environ.get("KCLIENT_SIM_ROUNDS", "12"))
MEMBERS = 20

# A late commit, which its client gave up before it sent a newer one, looks valid to the coordinator. So no request
# takes longer than a client waits, or than its connection lasts.
STORMY = Faults(
    refuse=0.05,
    lose_request=0.005,
    lose_answer=0.01,
    repeat_answer=0.005,
    cut_before=0.01,
    cut_after=0.01,
    late=0.02,
    late_delay=(0.5, 4.0),
    outlives=False,
)

EAGER = ("range",)
UPGRADE = (EAGER, ("cooperative-sticky,range",), ("cooperative-sticky",))
"""What members are given in the phases of a run: members of a phase and of the next one understand each other."""

GROUPS: dict[str, Sequence[Sequence[str]]] = {
    "eager": [EAGER],
    "sticky": [("sticky",)],
    "cooperative": [("cooperative-sticky",)],
    "mixed": [("range,roundrobin", "roundrobin,range", "sticky,roundrobin,range")],
    "both-ways": [("cooperative-sticky", "range,cooperative-sticky", "cooperative-sticky,sticky")],
    "upgrade": UPGRADE,
}

MARKS = {"mixed": pytest.mark.nightly, "both-ways": pytest.mark.nightly}
"""Groups that take as long as all others together; the others agree in the same ways."""


class Run:
    """One seeded run.

    Parameters:
        seed: repeats it.
        phases: the assignors that members are given in each part of it.
        static: how many of all members are static, 0 to 1.
    """

    def __init__(self, seed: int, phases: Sequence[Sequence[str]], static: float) -> None:
        self.simulation = Simulation(seed, NO_FAULTS)
        self.random = random.Random(seed)
        self.cluster = CommittingCluster(self.simulation, t=24, u=12)
        self.cluster.on_commit = self.check_commit
        self.phases = phases
        self.phase = 0
        self.static = static
        self.readers: list[Reader] = []
        self.dawdling: dict[Reader, float] = {}
        self.strategies: dict[Reader, int] = {}
        self.instances: dict[Reader, str] = {}
        self._numbers: Iterator[int] = count()
        self.fenced = 0
        while len(self.readers) < MEMBERS:
            self.join()

    # -- what has to hold

    def check(self, owner: Owner, tp: TopicPartition) -> None:
        """Of two that have a partition one must have been shut out; see `GroupRun.check`."""
        for other in self.readers:
            if other is not owner and tp in other.listener.owned and self.cluster.accepts(other):
                assert not self.cluster.accepts(owner), f"{tp} has two owners, and both could commit"

    def check_commit(self, member_id: str, tp: TopicPartition) -> None:
        """What is being committed is nobody else's, unless that one is shut out."""
        for other in self.readers:
            generation = other.group.member.generation_now()
            if generation is not None and generation.member_id != member_id and tp in other.listener.owned:
                assert not self.cluster.accepts(other), f"{member_id} commits {tp}, which is another member's"

    # -- what happens

    def join(self, instance: str | None = None) -> Reader:
        if instance is None and self.random.random() < self.static:
            instance = f"i{next(self._numbers)}"
        reader = Reader(
            self.cluster,
            self.random.choice([["t"], ["t", "u"], ["t", "u"]]),
            check=self.check,
            partition_assignment_strategy=self.random.choice(self.phases[self.phase]).split(","),
            group_instance_id=instance,
        )
        self.strategies[reader] = self.phase
        if instance is not None:
            self.instances[reader] = instance
        self.readers.append(reader)
        return reader

    def part(self, reader: Reader) -> str | None:
        """Somebody goes, in order or not; gives the instance id to come back with."""
        self.readers.remove(reader)
        self.random.choice([reader.leave, reader.die])()
        return self.instances.get(reader)

    def act(self) -> None:
        rng = self.random
        action, reader = rng.random(), rng.choice(self.readers)
        if action < 0.08 and len(self.readers) < MEMBERS:
            self.join()
        elif action < 0.14 and len(self.readers) > MEMBERS // 2:
            instance = self.part(reader)
            if rng.random() < 0.5:
                self.join(instance)
        elif action < 0.18:
            self.cluster.move(rng.randint(1, 3))
        elif action < 0.24:
            self.dawdling[reader] = self.simulation.now + rng.choice([5.0, 20.0, 50.0])
        elif action < 0.32:
            reader.interrupt()
        elif action < 0.34:
            reader.group.coordination.enforce_rebalance("")
        elif action < 0.36 and reader in self.instances:
            self.join(self.instances[reader])  # and fences it
        elif action < 0.37:
            self.cluster.topics["t"] = min(40, self.cluster.topics["t"] + 1)
            for each in self.readers:
                each.engine.metadata.request_update()
        self.poll()
        self.simulation.run(rng.choice([0.01, 0.2, 1.0]))

    def poll(self) -> None:
        for reader in list(self.readers):
            if self.dawdling.get(reader, 0.0) <= self.simulation.now:
                reader.poll(self.random.choice([0.0, 0.5]))
            if reader.fenced:
                assert not reader.listener.owned, "who is fenced has lost everything"
                self.readers.remove(reader)
                reader.die()
                self.fenced += 1

    def roll_over(self) -> None:
        """Restart every member of an earlier phase, one by one, on a network that works."""
        self.phase += 1
        while early := [reader for reader in self.readers if self.strategies[reader] < self.phase]:
            instance = self.part(early[0])
            self.join(instance)
            for _ in range(5):
                self.poll()
                self.simulation.run(0.5)

    def calm_down(self) -> None:
        """No further faults: soon everything is read, by one member each, and what was processed is committed."""
        self.simulation.faults = NO_FAULTS
        self.dawdling.clear()
        everything = sorted(
            TopicPartition(topic, n) for topic, partitions in self.cluster.topics.items() for n in range(partitions)
        )
        end = self.simulation.now + 300
        while sorted(tp for reader in self.readers for tp in reader.owned) != everything or any(
            reader.group.member.state is not MemberState.STABLE for reader in self.readers
        ):
            assert self.simulation.now < end, [
                (reader.group.member.state, sorted(reader.owned), reader.errors[-2:]) for reader in self.readers
            ]
            for reader in self.readers:
                reader.engine.metadata.request_update()
            self.poll()
            self.simulation.run(0.2)
        for reader in self.readers:
            assert reader.owned == reader.listener.owned
        before = {tp: self.cluster.committed(tp) or 0 for tp in everything}
        # A session may still end of what was lost before.
        end = self.simulation.now + 60
        while still := [tp for tp in everything if (self.cluster.committed(tp) or 0) <= before[tp]]:
            assert self.simulation.now < end, f"{still} do not flow"
            self.poll()
            self.simulation.run(0.5)


@pytest.mark.timeout(GUARD + 10 * ROUNDS)
@pytest.mark.parametrize("static", [0.0, 0.5], ids=["dynamic", "static"])
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=MARKS.get(kind, ())) for kind in GROUPS])
def test_no_two_of_twenty_members_own_a_partition_and_no_offset_goes_back(
    kind: str, static: float, rng: random.Random
) -> None:
    run = Run(rng.randrange(2**32), GROUPS[kind], static)
    run.calm_down()
    for phase in range(len(run.phases)):
        if phase:
            run.calm_down()
            run.roll_over()
        run.simulation.faults = STORMY
        for _ in range(ROUNDS // len(run.phases)):
            run.act()
    run.calm_down()
    if static:
        assert run.instances
    else:
        assert not run.fenced
