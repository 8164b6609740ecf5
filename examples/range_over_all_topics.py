"""An assignor that divides all partitions as one list, one consecutive part for each member.

Kafka's `range` divides each topic by itself, and the first member gets one more of each: of three topics with three
partitions, two members get six and three. Here they get five and four.

usage: range_over_all_topics.py BOOTSTRAP TOPIC...
"""

import sys
from collections.abc import Mapping
from contextlib import ExitStack

from kclient import Admin, Consumer, NewTopic, TopicPartition
from kclient.assignors import NO_RACKS, Assignment, Assignor, Member, Racks, in_order


class RangeOverAllTopics(Assignor):
    """Divides the list of all partitions, for members that all subscribe to the same topics."""

    name = "range-over-all-topics"

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Member], racks: Racks = NO_RACKS
    ) -> Assignment:
        if len({frozenset(member.topics) for member in members.values()}) > 1:
            raise ValueError("with range-over-all-topics all members must subscribe to the same topics")
        everything = [
            TopicPartition(topic, number) for topic in sorted(partitions) for number in range(partitions[topic])
        ]
        quota, extra = divmod(len(everything), len(members))
        assignment: Assignment = {}
        start = 0
        for index, member_id in enumerate(in_order(members)):
            end = start + quota + (index < extra)
            assignment[member_id] = everything[start:end]
            start = end
        return assignment


def main(bootstrap_servers: str, *topics: str) -> None:
    with Admin(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=3) for topic in topics])
    with ExitStack() as stack:
        consumers = [
            stack.enter_context(
                Consumer(
                    *topics,
                    bootstrap_servers=bootstrap_servers,
                    group_id=f"{topics[0]}-readers",
                    partition_assignment_strategy=[RangeOverAllTopics()],
                )
            )
            for _ in range(2)
        ]
        # The first member has all partitions until the second one has joined.
        while not all(consumer.assignment() for consumer in consumers):
            for consumer in consumers:
                consumer.poll(timeout=0.1)
        for consumer in sorted(consumers, key=lambda each: min(each.assignment())):
            print(f"{len(consumer.assignment())} partitions:", *sorted(consumer.assignment()))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
