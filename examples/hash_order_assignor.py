"""An assignor that deals partitions to the members one by one, in the order of their hashes.

Kafka's `roundrobin` deals in the order of topics and numbers. If partition 0 of each topic is the busy one, and there
are as many members as partitions, all of these go to the same member. The order of hashes has no such pattern.

usage: hash_order_assignor.py BOOTSTRAP TOPIC...
"""

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import cycle
from zlib import crc32

from kclient import Admin, Consumer, NewTopic, TopicPartition
from kclient.assignors import NO_RACKS, Assignment, Assignor, Member, Racks, in_order


def by_hash(partition: TopicPartition) -> tuple[int, TopicPartition]:
    """Return the sort key of a partition: a checksum, because Python's own hash of a text differs between processes."""
    return crc32(str(partition).encode()), partition


class HashOrderAssignor(Assignor):
    """Round robin over the partitions in the order of their hashes."""

    name = "hash-order"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        assignment: Assignment = {member_id: [] for member_id in members}
        wanted = {topic for member in members.values() for topic in member.topics if topic in partitions}
        turns = cycle(in_order(members))
        everything = (TopicPartition(topic, number) for topic in wanted for number in range(partitions[topic]))
        for partition in sorted(everything, key=by_hash):
            owner = next(member_id for member_id in turns if partition.topic in members[member_id].topics)
            assignment[owner].append(partition)
        return assignment


def main(bootstrap_servers: str, *topics: str) -> None:
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=2) for topic in topics])
    with ExitStack() as stack:
        consumers = [
            stack.enter_context(
                Consumer(
                    *topics,
                    bootstrap_servers=bootstrap_servers,
                    group_id=f"{topics[0]}-readers",
                    partition_assignment_strategy=[HashOrderAssignor()],
                )
            )
            for _ in range(2)
        ]
        # The first member has all partitions until the second one has joined.
        while not all(consumer.assignment() for consumer in consumers):
            for consumer in consumers:
                consumer.poll(timeout=0.1)
        for consumer in consumers:
            print(f"{len(consumer.assignment())} partitions:", *sorted(consumer.assignment()))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
