"""Topics that the broker creates by itself: the internal topics of its coordinators, and those that clients ask for.

Kafka's AutoTopicCreationManager. On the node of the controller a topic exists at once, on others somewhat later; the
client repeats its request until it does. Elsewhere: the plan of a topic (`refbroker.controller.topics`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

from kclient.errors import KafkaError, TopicExistsError, error_from_code
from kclient.protocol.messages.create_topics import CreateTopicsRequest
from refbroker.peers.controller_client import ControllerClient, when_done

logger = logging.getLogger(__name__)

NewTopic = CreateTopicsRequest.CreatableTopic


class AutoTopicCreation:
    """Creates topics on behalf of the broker.

    Parameters:
        controller: carries out the change.
    """

    def __init__(self, controller: ControllerClient) -> None:
        self._controller = controller
        self._requested: set[str] = set()

    def create_topics(
        self, topics: Sequence[NewTopic], on_created: Callable[[int], None] = lambda partitions: None
    ) -> None:
        """Request the creation of topics, unless it is requested already; a failure is logged.

        Parameters:
            on_created: called with the number of partitions of each topic that was created.
        """
        wanted = [topic for topic in topics if topic.name not in self._requested]
        if not wanted:
            return
        names = [topic.name for topic in wanted]
        self._requested.update(names)

        def receive(answer: asyncio.Future[Any]) -> None:
            self._requested.difference_update(names)
            try:
                results = answer.result().topics
            except KafkaError as error:
                logger.warning("cannot create topic %s: %s", ", ".join(names), error)
                return
            for result in results:
                if not result.error_code:
                    on_created(result.num_partitions)
                elif result.error_code != TopicExistsError.code:
                    reason = error_from_code(result.error_code, result.error_message)
                    logger.warning("cannot create topic %s: %s", result.name, reason)

        when_done(self._controller.ask(CreateTopicsRequest(topics=wanted)), receive)
