"""Spread a topic's replicas over all brokers, and wait until they have moved. usage: spread_topic.py BOOTSTRAP TOPIC"""

import sys
import time

from kclient import Admin, TopicPartition
from kclient.admin import ElectionType

if len(sys.argv) != 3:
    sys.exit(__doc__)
bootstrap_servers, topic = sys.argv[1:]
with Admin(bootstrap_servers=bootstrap_servers) as admin:
    brokers = sorted(admin.describe_cluster().brokers)
    targets = {}
    for info in admin.describe_topics([topic])[topic].partitions:
        places = range(info.partition, info.partition + min(len(info.replicas), len(brokers)))
        targets[TopicPartition(topic, info.partition)] = [brokers[place % len(brokers)] for place in places]
    admin.alter_partition_reassignments(targets)
    while moving := admin.list_partition_reassignments(targets):
        print("moving:", ", ".join(map(str, moving)))
        time.sleep(1)
    admin.elect_leaders(ElectionType.PREFERRED, targets)
    for info in admin.describe_topics([topic])[topic].partitions:
        print(f"partition {info.partition} is on brokers {info.replicas}")
