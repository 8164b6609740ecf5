"""Copy a topic in transactions, with the plain calls. usage: transaction_by_hand.py BOOTSTRAP SOURCE TARGET

Each poll is a transaction, so no transaction is open during a rebalance. kclient.transform has the complete loop.
"""

import sys

from kclient import Consumer, Producer
from kclient.errors import KafkaError


def go_back(consumer: Consumer) -> None:
    """Return to the committed offsets."""
    for partition, committed in consumer.committed(consumer.assignment()).items():
        if committed is None:
            consumer.seek_to_beginning(partition)
        else:
            consumer.seek(partition, committed)


if len(sys.argv) != 4:
    sys.exit(__doc__)
bootstrap_servers, source, target = sys.argv[1:]
with (
    Consumer(
        source,
        bootstrap_servers=bootstrap_servers,
        group_id=f"copy-{source}",
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer,
    Producer(bootstrap_servers=bootstrap_servers, transactional_id=f"copy-{source}-1") as producer,
):
    producer.init_transactions()  # aborts what an earlier run of this program left open, and fences it
    while records := consumer.poll(timeout=6.0):
        try:
            with producer.transaction():
                for record in records:
                    producer.send(target, record.value, key=record.key)
                producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
        except KafkaError as error:
            if not error.abortable:  # for example fenced: another process does the work
                raise
            print(f"retrying: {error}")
            go_back(consumer)
        else:
            print(f"{len(records)} records copied")
