"""Mutants: the machines of replication with one rule removed, which the simulation must notice.

A mutant replaces one pure function while the simulation runs. Those with the name of a model restore an earlier
protocol of Kafka, in which the specification hachikuji/kafka-specification found the fault.

    python -m tests.sim.replication.mutants         # prints how many seeds each one needed
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from refbroker.log.leader_epochs import EpochEntry
from refbroker.replication import divergence, rules
from refbroker.replication.divergence import FollowingStart, Truncation
from refbroker.replication.followers import NO_BROKER_EPOCH, FollowerState
from refbroker.replication.isr import InSyncReplicas
from tests.sim.replication.invariants import Violation
from tests.sim.replication.simulation import Simulation

MOST_SEEDS = 4000


@dataclass(frozen=True)
class Mutant:
    """A rule that is removed.

    Attributes:
        name: of the mutant, with that of the model, if there is one.
        module, function: what is replaced.
        replacement: by what.
    """

    name: str
    module: Any
    function: str
    replacement: Callable[..., Any]

    def seeds_until_caught(self, seeds: Iterable[int]) -> tuple[int, str] | None:
        """Run seeds until one finds a violation; return their number and the violation, None if none does."""
        with mock.patch.object(self.module, self.function, self.replacement):
            for number, seed in enumerate(seeds, 1):
                try:
                    Simulation(seed).run()
                except Violation as violation:
                    return number, str(violation)
        return None


def truncate_to_high_watermark(log_end: int, high_watermark: int, _latest_epoch: int) -> FollowingStart:
    """Begin to follow at the high watermark, without an epoch to compare."""
    end = min(high_watermark, log_end)
    return FollowingStart(end, end, rules.NO_EPOCH)


def truncate_in_one_step(leader: EpochEntry, _own: EpochEntry, log_end: int, high_watermark: int) -> Truncation:
    """Truncate to the end of the epoch at the leader, whatever the leader's epoch is."""
    end = high_watermark if leader.start_offset < 0 else leader.start_offset
    return Truncation(min(end, log_end), True)


def accept_any_leader_epoch(_requested: int, _current: int, _topic: str, _partition: int) -> None:
    """Serve followers of other leader epochs."""


def join_before_the_epoch(follower_end: int, high_watermark: int, _epoch_start: int) -> bool:
    """Let a follower join that has reached the high watermark only."""
    return follower_end >= high_watermark


def committed_isr(isr: InSyncReplicas) -> frozenset[int]:
    """Let the high watermark wait for the committed ISR only."""
    return isr.committed


def without_broker_epochs(
    isr: Iterable[int], _own: tuple[int, int], _followers: Mapping[int, FollowerState]
) -> tuple[tuple[int, int], ...]:
    """Propose an ISR whose broker epochs the controller does not check."""
    return tuple((node, NO_BROKER_EPOCH) for node in sorted(isr))


def assign_no_epoch(_leader_epoch: int) -> None:
    """Lead without a note of the epoch in the log."""


def append_all(batches: Sequence[Any], _leader_epoch: int) -> int:
    """Append batches of later leader epochs, too."""
    return len(batches)


def move_below_min_isr(current: int, log_end: int, follower_ends: Iterable[int], _isr_size: int, _min_isr: int) -> int:
    """Move the high watermark however few replicas are in sync."""
    return max(current, min([log_end, *follower_ends]))


def forget_the_proposal(_state: tuple[int, int], _known: tuple[int, int]) -> bool:
    """Forget a proposal on its way when the metadata of an earlier answer arrives, as Kafka does."""
    return False


def go_by_the_role(_known_epoch: int, _leader_epoch: int) -> bool:
    """Keep what is known of followers if the leader has not noticed another one, as Kafka does."""
    return True


MUTANTS = [
    Mutant("KafkaTruncateToHighWatermark", divergence, "following_start", truncate_to_high_watermark),
    Mutant("Kip101: one-step truncation", divergence, "truncation", truncate_in_one_step),
    Mutant("Kip279: no fetch-epoch fencing", rules, "check_leader_epoch", accept_any_leader_epoch),
    Mutant("Kip320FirstTry: joining before the epoch", rules, "may_join_isr", join_before_the_epoch),
    Mutant("committed instead of maximal ISR", rules, "isr_for_high_watermark", committed_isr),
    Mutant("ignored broker epochs", rules, "with_broker_epochs", without_broker_epochs),
    Mutant("epoch not assigned at election", rules, "epoch_to_assign", assign_no_epoch),
    Mutant("KAFKA-18723: batches of later epochs", divergence, "batches_to_append", append_all),
    Mutant("proposal forgotten", rules, "is_known", forget_the_proposal),
    Mutant("leader in between not noticed", rules, "has_led_on", go_by_the_role),
    Mutant("high watermark below min.insync.replicas", rules, "high_watermark", move_below_min_isr),
]


def main() -> int:
    """Run all mutants; return 1 if one survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="the number of seeds after which one survives")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    survivors = 0
    for mutant in MUTANTS:
        caught = mutant.seeds_until_caught(range(options.first, options.first + options.seeds))
        survivors += caught is None
        found = f"survives {options.seeds} seeds"
        if caught is not None:
            found = f"caught by seed number {caught[0]}: {caught[1]}"
        print(f"{mutant.name}: {found[:300]}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    raise SystemExit(main())
