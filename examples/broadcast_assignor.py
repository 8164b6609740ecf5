"""An assignor that gives every partition to every member, for messages that all must receive, such as cache
invalidations.

usage: broadcast_assignor.py BOOTSTRAP TOPIC
"""

import sys
from collections.abc import Mapping
from contextlib import ExitStack

from kclient import Consumer, Producer, TopicPartition
from kclient.assignors import COOPERATIVE, EAGER, NO_RACKS, Assignment, Assignor, Member, Racks

EVENTS = 100


class BroadcastAssignor(Assignor):
    """Assigns all partitions of its topics to each member. Cooperative: no member is interrupted when others come and
    go.
    """

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
                    enable_auto_commit=False,  # members share partitions, so a committed offset fits none
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
