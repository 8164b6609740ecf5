"""Makes the internal topics of coordinators when they are asked for the first time.

Apache Kafka answers COORDINATOR_NOT_AVAILABLE until the topic is there; here it is there at once. Where its
replication factor asks for more brokers than there are, it gets as many as there are, so that one node needs no
setting of its own; Apache Kafka does not make the topic then.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kclient.errors import KafkaError
from refbroker.metadata.topics import NewTopic, plan_topic

if TYPE_CHECKING:
    from refbroker.broker import Broker

logger = logging.getLogger(__name__)


def ensure_topic(broker: Broker, name: str, partitions: int, replication: int, configs: Mapping[str, str]) -> bool:
    """Make an internal topic unless it exists, and say whether it does then.

    Parameters:
        partitions, replication: what the settings ask for.
        configs: the topic's own settings.
    """
    image = broker.metadata.image
    if name in image.topics:
        return True
    replicas = min(replication, len(image.brokers))
    try:
        broker.metadata.append(plan_topic(broker, NewTopic(name, partitions, replicas, configs=configs)).records)
    except KafkaError as error:
        logger.error("could not create %s: %s", name, error)
        return False
    return True
