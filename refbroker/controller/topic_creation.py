"""CreateTopics: the records that create topics, with a result for each of them.

A name that occurs twice is INVALID_REQUEST. Of names that collide in metrics (`a.b`, `a_b`), the first is created, and
the others are INVALID_TOPIC_EXCEPTION. Source: `createTopics` of Kafka's ControllerApis and ReplicationControlManager.
Elsewhere: the plan of one topic (`topics`), who may create it (the handler).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kclient.errors import InvalidRequestError, KafkaError, PolicyViolationError, TopicAuthorizationError
from kclient.protocol import Message
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from refbroker.controller.controller import Controller
from refbroker.controller.topics import BROKERS_CHOICE, MOST_PARTITIONS, NewTopic, TopicPlan, plan_topic
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.runtime.error_codes import code_of
from refbroker.settings.effective import topic_values

Topic = CreateTopicsRequest.CreatableTopic
Result = CreateTopicsResponse.CreatableTopicResult


def plan_creation(
    controller: Controller,
    request: CreateTopicsRequest,
    *,
    may_describe: Callable[[str], bool] = lambda name: True,
    record_mutations: Callable[[int], None] = lambda partitions: None,
) -> tuple[list[Message], CreateTopicsResponse]:
    """Return the records that create topics, and the response.

    Parameters:
        may_describe: whether the response has the settings of a topic.
        record_mutations: called with the number of partitions of each new topic; may raise ThrottlingQuotaExceededError
            to refuse it.

    Raises:
        PolicyViolationError: the topics have too many partitions together.
    """
    counts = Counter(topic.name for topic in request.topics)
    wanted = [topic for topic in request.topics if counts[topic.name] == 1]
    if sum(_partitions(controller, topic) for topic in wanted if topic.name != METADATA_TOPIC) > MOST_PARTITIONS:
        raise PolicyViolationError("Excessively large number of partitions per request.")
    records: list[Message] = []
    results: list[Result] = []
    made: list[str] = []
    room = controller.room_for_files()
    for topic in wanted:
        try:
            plan = plan_topic(controller, _new_topic(topic), made, room=room - len(records))
            record_mutations(plan.num_partitions)
        except KafkaError as error:
            results.append(refusal(topic.name, error))
        else:
            made.append(topic.name)
            records += plan.records
            results.append(_result(controller, topic.name, plan, may_describe=may_describe(topic.name)))
    duplicate = InvalidRequestError("Duplicate topic name.")
    results += [refusal(name, duplicate) for name, count in counts.items() if count > 1]
    return records, CreateTopicsResponse(topics=results)


def refusal(name: str, error: KafkaError) -> Result:
    """Return the result of a topic that is not created."""
    return Result(name=name, error_code=code_of(error), error_message=error.message)


def _partitions(controller: Controller, topic: Topic) -> int:
    """Return the number of partitions that a topic would have."""
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == BROKERS_CHOICE:
        return controller.config.integer("num.partitions")
    return max(topic.num_partitions, 0)


def _new_topic(topic: Topic) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(one.partition_index, one.broker_ids) for one in topic.assignments],
        {config.name: config.value for config in topic.configs},
    )


def _result(controller: Controller, name: str, plan: TopicPlan, *, may_describe: bool) -> Result:
    if not may_describe:
        return Result(
            name=name,
            topic_id=plan.topic_id,
            error_message=None,
            topic_config_error_code=TopicAuthorizationError.code,
            num_partitions=-1,
            replication_factor=-1,
        )
    values = topic_values(plan.configs, controller.config.layers)
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
