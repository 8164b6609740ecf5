"""Topics that the broker creates by itself: the internal topics of its coordinators, and those of tests.

Kafka's `AutoTopicCreationManager`. Elsewhere: the plan of a topic (`refbroker.controller.topics`), and topics that
clients create, whose handlers return the records of a plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from refbroker.controller.active import ActiveController
from refbroker.controller.topics import NewTopic, plan_topic


@dataclass(frozen=True, slots=True)
class AutoTopicCreation:
    """Creates topics on behalf of the broker.

    Attributes:
        controller: plans and appends the change.
    """

    controller: ActiveController

    def create_topic(self, topic: NewTopic) -> None:
        """Create a topic, which exists when this returns.

        Raises:
            InvalidTopicError, TopicExistsError, InvalidPartitionsError, InvalidReplicationFactorError,
            InvalidReplicaAssignmentError, InvalidRequestError, InvalidConfigurationError, PolicyViolationError: it
                cannot be.
            KafkaStorageError: the metadata log could not be written.
        """
        self.controller.append(plan_topic(self.controller, topic).records)
