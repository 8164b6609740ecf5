"""Read a topic from its beginning until it has been quiet for a while. usage: consumer.py BOOTSTRAP TOPIC"""

from usage import arguments

from kclient import Consumer

bootstrap_servers, topic = arguments(__doc__)
with Consumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
    while records := consumer.poll(timeout=5.0):
        for record in records:
            print(record.topic, record.partition, record.offset, record.key, record.value)
