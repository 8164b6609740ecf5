"""Produce a few records and print where each one ended up. usage: producer.py BOOTSTRAP TOPIC"""

import sys

from kclient import Producer

if len(sys.argv) != 3:
    sys.exit(__doc__)
bootstrap_servers, topic = sys.argv[1:]
with Producer(bootstrap_servers=bootstrap_servers) as producer:
    futures = [producer.send(topic, f"order {number}".encode(), key=b"customer-7") for number in range(10)]
    for future in futures:
        print(future.result(timeout=10))
