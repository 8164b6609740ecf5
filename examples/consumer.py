"""Read a topic from its beginning until it has been quiet for a while. usage: consumer.py BOOTSTRAP TOPIC"""

import sys

from kclient import Consumer

if len(sys.argv) != 3:
    sys.exit(__doc__)
bootstrap_servers, topic = sys.argv[1:]
with Consumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
    while records := consumer.poll(timeout=5.0):
        for record in records:
            print(record.topic, record.partition, record.offset, record.key, record.value)
