"""An assignor that gives every partition to every member: for news that all must hear, as what a cache has to forget.

usage: broadcast_assignor.py BOOTSTRAP TOPIC
"""

import sys
from collections.abc import Mapping
from contextlib import ExitStack

from kclient import Consumer, Producer, TopicPartition
from kclient.assignors import COOPERATIVE, EAGER, NO_RACKS, Assignment, Assignor, Member, Racks

EVENTS = 100


class BroadcastAssignor(Assignor):
    """All partitions of its topics to each member. Cooperative: nobody has to stop when others come and go."""

    name = "broadcast"
    protocols = (EAGER, COOPERATIVE)

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        return {
            member_id: [
                TopicPartition(topic, number)
                for topic in sorted(member.topics)
                for number in range(partitions.get(topic, 0))
            ]
            for member_id, member in members.items()
        }


def main(bootstrap_servers: str, topic: str) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(EVENTS):
            producer.send(topic, b"event %d" % number)
    with ExitStack() as stack:
        consumers = [
            stack.enter_context(
                Consumer(
                    topic,
                    bootstrap_servers=bootstrap_servers,
                    group_id=f"{topic}-broadcast",
                    partition_assignment_strategy=[BroadcastAssignor()],
                    auto_offset_reset="earliest",
                    enable_auto_commit=False,  # a group has one offset per partition, and here each member its own
                )
            )
            for _ in range(3)
        ]
        seen = [0, 0, 0]
        while min(seen) < EVENTS:
            for index, consumer in enumerate(consumers):
                seen[index] += len(consumer.poll(timeout=0.1))
    for index, count in enumerate(seen):
        print(f"member {index} saw {count} events")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
