"""CreateTopics (19), versions 2 to 7: creates topics, or validates the request.

Each topic has its own result. The response is sent when the logs of the topics exist, so `timeout_ms` has no effect.
Version 5 and later return the settings, 7 the topic id. A name that occurs twice is INVALID_REQUEST. Of names that
collide in metrics (`a.b`, `a_b`), the first is created, and the others are INVALID_TOPIC_EXCEPTION. If the topics,
without those that occur twice, have more than 10,000 partitions together, every topic is POLICY_VIOLATION; so is a
topic with more partitions than the broker may have open files.

Permissions: CREATE on the topic or the cluster; without DESCRIBE_CONFIGS on the topic, the response has no settings.

Not implemented: creation policies, and throttling (KIP-599).
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import msgspec

from kclient.errors import PolicyViolationError, TopicAuthorizationError
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from refbroker.controller.change import Change
from refbroker.controller.topic_creation import plan_creation, refusal
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.security.permissions import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS

FIRST_WITH_STRICT_QUOTA = 6


def handle(context: Context[ControllerServices], request: CreateTopicsRequest) -> CreateTopicsResponse | Change:
    """Carry out a CreateTopics request."""
    counts = Counter(topic.name for topic in request.topics)
    access = context.access
    may_create_all = access.allows(CREATE_CLUSTER, filters=True)
    # As in Kafka, the metadata topic has its own error for every client.
    refused = {
        name
        for name, count in counts.items()
        if count == 1 and name != METADATA_TOPIC and not (may_create_all or access.allows(CREATE_TOPIC, name))
    }
    allowed = [topic for topic in request.topics if topic.name not in refused]
    try:
        records, response = plan_creation(
            context.broker.controller,
            msgspec.structs.replace(request, topics=allowed),
            may_describe=lambda name: access.allows(DESCRIBE_TOPIC_CONFIGS, name, filters=True),
            record_mutations=partial(context.quota.record_mutations, strict=context.version >= FIRST_WITH_STRICT_QUOTA),
        )
    except PolicyViolationError as error:
        return CreateTopicsResponse(topics=[refusal(topic.name, error) for topic in request.topics])
    response.topics += [refusal(name, TopicAuthorizationError("Authorization failed.")) for name in refused]
    # In Kafka, the broker refuses these before the controller does, and adds them to the response.
    response.topics.sort(key=lambda result: result.name == METADATA_TOPIC)
    return response if request.validate_only else Change(records, lambda: response)
