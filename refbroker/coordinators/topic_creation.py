"""Topics that the broker creates by itself: the internal topics of its coordinators, and those of tests.

Kafka's `AutoTopicCreationManager`. Elsewhere: the plan of a topic (`refbroker.controller.topics`), and topics that
clients create, whose handlers return the records of a plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from refbroker.controller.controller import Controller
from refbroker.controller.topics import NewTopic, plan_topic
from refbroker.metadata.log import MetadataLog


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Creates topics on behalf of the broker.

    Attributes:
        controller: the planner of metadata changes.
        metadata: the metadata log.
    """

    controller: Controller
    metadata: MetadataLog

    def create_topic(self, topic: NewTopic) -> None:
        """Create a topic, which exists when this returns.

        Raises:
            InvalidTopicError, TopicExistsError, InvalidPartitionsError, InvalidReplicationFactorError,
            InvalidReplicaAssignmentError, InvalidRequestError, InvalidConfigurationError, PolicyViolationError: it
                cannot be.
            KafkaStorageError: the metadata log could not be written.
        """
        self.metadata.append(plan_topic(self.controller, topic).records)
