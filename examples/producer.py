"""Produce a few records and print where each one ended up. usage: producer.py BOOTSTRAP TOPIC"""

from usage import arguments

from kclient import Producer

bootstrap_servers, topic = arguments(__doc__)
with Producer(bootstrap_servers=bootstrap_servers) as producer:
    futures = [producer.send(topic, f"order {number}".encode(), key=b"customer-7") for number in range(10)]
    for future in futures:
        print(future.result(timeout=10))
