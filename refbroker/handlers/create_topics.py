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

from kclient.errors import InvalidRequestError, KafkaError, PolicyViolationError, TopicAuthorizationError
from kclient.protocol import Message
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from refbroker.controller.change import Change
from refbroker.controller.topics import BROKERS_CHOICE, MOST_PARTITIONS, NewTopic, TopicPlan, plan_topic
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS
from refbroker.settings.effective import topic_values

Result = CreateTopicsResponse.CreatableTopicResult
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
    wanted = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name not in refused]
    if sum(_partitions(context, topic) for topic in wanted if topic.name != METADATA_TOPIC) > MOST_PARTITIONS:
        too_many = PolicyViolationError("Excessively large number of partitions per request.")
        return CreateTopicsResponse(topics=[_refusal(topic.name, too_many) for topic in request.topics])
    records: list[Message] = []
    results: list[Result] = []
    made: list[str] = []
    room = context.broker.controller.room_for_files()
    for topic in wanted:
        try:
            plan = plan_topic(context.broker.controller, _new_topic(topic), made, room=room - len(records))
            context.quota.record_mutations(plan.num_partitions, strict=context.version >= FIRST_WITH_STRICT_QUOTA)
        except KafkaError as error:
            results.append(_refusal(topic.name, error))
        else:
            made.append(topic.name)
            records += plan.records
            results.append(_result(context, topic.name, plan))
    results += [_refusal(name, TopicAuthorizationError("Authorization failed.")) for name in refused]
    duplicate = InvalidRequestError("Duplicate topic name.")
    results += [_refusal(name, duplicate) for name, count in counts.items() if count > 1]
    # In Kafka, the broker refuses these before the controller does, and adds them to the response.
    results.sort(key=lambda result: result.name == METADATA_TOPIC)
    response = CreateTopicsResponse(topics=results)
    return response if request.validate_only else Change(records, lambda: response)


def _partitions(context: Context[ControllerServices], topic: CreateTopicsRequest.CreatableTopic) -> int:
    """Return the number of partitions that a topic would have."""
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == BROKERS_CHOICE:
        return context.broker.config.integer("num.partitions")
    return max(topic.num_partitions, 0)


def _new_topic(topic: CreateTopicsRequest.CreatableTopic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(one.partition_index, one.broker_ids) for one in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _refusal(name: str, error: KafkaError) -> Result:
    return Result(name=name, error_code=code_of(error), error_message=error.message)


def _result(context: Context[ControllerServices], name: str, plan: TopicPlan) -> Result:
    if not context.access.allows(DESCRIBE_TOPIC_CONFIGS, name, filters=True):
        return Result(
            name=name,
            topic_id=plan.topic_id,
            error_message=None,
            topic_config_error_code=TopicAuthorizationError.code,
            num_partitions=-1,
            replication_factor=-1,
        )
    values = topic_values(plan.configs, context.broker.config.layers)
    return Result(
        name=name,
        topic_id=plan.topic_id,
        error_message=None,
        num_partitions=plan.num_partitions,
        replication_factor=plan.replication_factor,
        configs=[
            CreateTopicsResponse.CreatableTopicConfigs(
                name=name,
                value=found.value,
                config_source=found.source,
                is_sensitive=found.setting.sensitive,
            )
            for name, found in sorted(values.items())
        ],
    )
