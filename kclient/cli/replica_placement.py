"""The placement of replicas on brokers for a generated plan: even, and over as many racks as there are.

Unlike Kafka's kafka-reassign-partitions.sh, which draws the placement at random, the same cluster gives the same plan;
replicas stay where they are if that is as even.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from kclient.cli.failures import CommandError
from kclient.types import TopicPartition


def place(
    current: Mapping[TopicPartition, Sequence[int]],
    racks: Mapping[int, str | None],
    replication_factor: int | None = None,
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return new replicas for each partition, its preferred leader first.

    Parameters:
        current: the replicas that the partitions have.
        racks: the rack of each broker that may be used; the same value for all of them if racks do not matter.
        replication_factor: the new number of replicas; None keeps that of each partition.

    Raises:
        CommandError: there are fewer brokers than replicas.
    """
    # An order that differs between topics, so that the first partitions of many small topics do not meet on one broker.
    order = {broker: position for position, broker in enumerate(sorted(racks))}
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    placed: dict[TopicPartition, tuple[int, ...]] = {}
    topic = None
    for key, before in sorted(current.items()):
        if key.topic != topic:
            topic = key.topic
            brokers = sorted(racks)
            random.Random(topic).shuffle(brokers)
            order = {broker: position for position, broker in enumerate(brokers)}
        count = replication_factor or len(before)
        if count > len(racks):
            names = ", ".join(map(str, sorted(racks)))
            raise CommandError(f"{key} needs {count} brokers for its replicas, and there is {names}")
        leader = min(
            racks,
            key=lambda broker: (
                leaders[broker],
                replicas[broker],
                broker != before[0],
                broker not in before,
                order[broker],
            ),
        )
        chosen = [leader]
        while len(chosen) < count:
            used = Counter(racks[broker] for broker in chosen)
            chosen.append(
                min(
                    (broker for broker in racks if broker not in chosen),
                    key=lambda broker: (
                        used[racks[broker]],
                        replicas[broker],
                        broker not in before,
                        pairs[leader, broker],
                        order[broker],
                    ),
                )
            )
        leaders[leader] += 1
        replicas.update(chosen)
        pairs.update((leader, broker) for broker in chosen[1:])
        placed[key] = tuple(chosen)
    return placed
