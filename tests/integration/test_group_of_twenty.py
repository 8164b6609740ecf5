"""Twenty members that come, go, die, dawdle and lose their connections, against a broker: by seed, in one thread.

What holds at every moment: a partition has one owner, from the moment it is assigned until its revocation is over or
it is lost, except for members that were shut out, whose commits fail; and committed offsets never go back. Once it is
quiet everything is owned and everything was read. KCLIENT_GROUP_ROUNDS=1000 lets a run continue for longer than the
default. The same over a simulated network, for longer and with worse, is in tests/sim.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Collection

import pytest

from kclient import Admin
from kclient.errors import CommitFailedError, MaxPollIntervalExceededError, RebalanceInProgressError
from kclient.types import TopicPartition
from tests.integration.consumers import EVERY_WAY, Group, Log, Member, fill
from tests.integration.unruly_network import REQUESTS, Cuts
from tests.support import clock
from tests.support.patience import GUARD
from tests.support.seeding import Seeder

ROUNDS = int(os.environ.get("KCLIENT_GROUP_ROUNDS", "10"))
MEMBERS = 20
PARTITIONS = 24
POLL_INTERVAL_MS = 3_000


class Owning(Log):
    """Ensures that what is assigned to its member is nobody else's."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for other in self._run.group.members:
            if other.log is not self and (shared := other.log.owned & set(partitions)):
                self._run.check_that_it_is_shut_out(other, shared)
        super().on_assigned(partitions)


class Run:
    """One seeded run."""

    def __init__(self, group: Group, seed: Seeder, cuts: Cuts, rng: random.Random, admin: Admin) -> None:
        self.group = group
        self.seed = seed
        self.cuts = cuts
        self.rng = rng
        self.admin = admin
        self.expected: list[bytes] = []
        self.read: list[bytes] = []
        self.dawdling: dict[Member, int] = {}
        self.committed: dict[TopicPartition, int] = {}

    def join(self) -> None:
        member = self.group.join(max_poll_interval_ms=POLL_INTERVAL_MS, retry_backoff_max_ms=200)
        member.log = Owning(self)
        member.consumer.subscribe(self.group.topic, listener=member.log)

    def check_that_it_is_shut_out(self, member: Member, partitions: Collection[TopicPartition]) -> None:
        with pytest.raises((CommitFailedError, RebalanceInProgressError)):
            member.consumer.commit(dict.fromkeys(partitions, 0), timeout=10.0)

    def act(self, number: int) -> None:
        rng, members = self.rng, self.group.members
        action, member = rng.random(), rng.choice(members)
        if action < 0.3 and len(members) < MEMBERS:
            self.join()
        elif action < 0.45 and len(members) > MEMBERS // 2:
            self.read += member.values
            self.group.leave(member)
        elif action < 0.5 and len(members) > MEMBERS // 2:
            self.read += member.values
            self.group.die(member)
        elif action < 0.65:
            self.dawdling[member] = number + rng.choice([1, 3, 10])
        elif action < 0.85:
            self.cuts.at(rng.choice(REQUESTS[self.group.protocol]), rng.choice(["before", "after"]), rng.randint(1, 3))
        else:
            self.expected += fill(self.seed, self.group.topic, PARTITIONS, len(self.expected), 3)
        for _ in range(rng.choice([1, 3, 6])):
            self.poll(number)
        self.check_committed()

    def poll(self, number: int) -> None:
        for member in self.group.members:
            if self.dawdling.get(member, 0) <= number:
                try:
                    member.poll(0.01)
                except MaxPollIntervalExceededError:
                    assert not member.log.owned

    def check_committed(self) -> None:
        name = f"group-{self.group.topic}"
        found = self.admin.list_group_offsets(name)[name]
        now = {tp: one.offset for tp, one in found.items() if one is not None}
        for tp, offset in self.committed.items():
            assert now[tp] >= offset, f"{tp}: {offset} was committed, and then {now[tp]}"
        self.committed = now

    def calm_down(self) -> None:
        """Everything is owned by one member each, and read by somebody."""
        self.dawdling.clear()
        everything = sorted(TopicPartition(self.group.topic, number) for number in range(PARTITIONS))

        def settled() -> bool:
            self.poll(0)
            owned = sorted(tp for member in self.group.members for tp in member.log.owned)
            return owned == everything and set(self.expected) <= set(self.read + self.group.values)

        # `poll_until` would poll, too, and let out what `poll` expects: that a member was too slow.
        deadline = clock.monotonic() + 60.0
        while not settled():
            assert clock.monotonic() < deadline, [(sorted(one.partitions), one.log.heard) for one in self.group.members]
        for member in self.group.members:
            assert member.log.owned == member.consumer.assignment()


@pytest.mark.slow
@pytest.mark.timeout(GUARD + 20 * ROUNDS)
@EVERY_WAY
def test_no_two_of_twenty_members_own_a_partition_and_no_offset_goes_back(
    cuts: Cuts, group: Group, seed: Seeder, topic: str, rng: random.Random
) -> None:
    seed.create(topic, partitions=PARTITIONS)
    with Admin(bootstrap_servers=group.bootstrap_servers) as admin:
        run = Run(group, seed, cuts, rng, admin)
        run.expected += fill(seed, topic, PARTITIONS, 0, 5)
        for _ in range(MEMBERS // 2):
            run.join()
        for number in range(ROUNDS):
            run.act(number)
        run.calm_down()
    counts = Counter(run.read + group.values)
    assert counts.keys() == set(run.expected)
