"""A partitioner of your own: paying customers share the last partition, everyone else is spread by key over the others.

usage: custom_partitioner.py BOOTSTRAP TOPIC
"""

import sys
from collections import Counter
from collections.abc import Sequence

from kclient import Producer
from kclient.producer import partition_for_key


class PayingCustomersApart:
    """Keeps keys that start with `vip-` from waiting behind the others."""

    def partition(
        self, topic: str, key: bytes | None, value: bytes | None, partitions: int, available: Sequence[int]
    ) -> int | None:
        if key is None or partitions == 1:
            return None  # like the default: a partition that changes with each batch
        if key.startswith(b"vip-"):
            return partitions - 1
        return partition_for_key(key, partitions - 1)


if len(sys.argv) != 3:
    sys.exit(__doc__)
bootstrap_servers, topic = sys.argv[1:]
with Producer(bootstrap_servers=bootstrap_servers, partitioner=PayingCustomersApart()) as producer:
    customers = [f"vip-{number}" if number % 10 == 0 else f"customer-{number}" for number in range(100)]
    futures = [producer.send(topic, b"order", key=name.encode()) for name in customers]
    counts = Counter(future.result(timeout=10).partition for future in futures)
for partition, count in sorted(counts.items()):
    print(f"partition {partition}: {count} orders")
