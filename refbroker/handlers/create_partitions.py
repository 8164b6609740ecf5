"""CreatePartitions (37), versions 0 to 3: adds partitions to topics.

Each topic has its own result; a number below the current one is INVALID_PARTITIONS. The response is sent when the logs
of the new partitions exist.

Permissions: ALTER on the topic.
"""

from __future__ import annotations

from collections import Counter

from kclient.errors import InvalidRequestError, KafkaError, UnknownTopicOrPartitionError
from kclient.protocol import Message
from kclient.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from kclient.protocol.messages.records.metadata_log import PartitionRecord
from refbroker.controller.change import Change
from refbroker.controller.topics import plan_partitions
from refbroker.handlers.context import Context
from refbroker.handlers.services import ControllerServices
from refbroker.runtime.error_codes import code_of
from refbroker.security.permissions import ALTER_TOPIC

Result = CreatePartitionsResponse.CreatePartitionsTopicResult
FIRST_WITH_STRICT_QUOTA = 3


def handle(context: Context[ControllerServices], request: CreatePartitionsRequest) -> CreatePartitionsResponse | Change:
    """Carry out a CreatePartitions request."""
    counts = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results = []
    room = context.broker.controller.room_for_files()
    for name, count in counts.items():
        topic = next(topic for topic in request.topics if topic.name == name)
        assignments = None if topic.assignments is None else [one.broker_ids for one in topic.assignments]
        try:
            if count > 1:
                raise InvalidRequestError("Duplicate topic name.")
            refusal = context.access.refusal(ALTER_TOPIC, name)
            if refusal is not None:
                raise refusal
            planned = plan_partitions(
                context.broker.controller, name, topic.count, assignments, room=room - len(records)
            )
            context.quota.record_mutations(
                sum(isinstance(record, PartitionRecord) for record in planned),
                strict=context.version >= FIRST_WITH_STRICT_QUOTA,
            )
            records += planned
        except KafkaError as error:
            # Kafka sends a message with every other error.
            text = None if isinstance(error, UnknownTopicOrPartitionError) else error.message
            results.append(Result(name=name, error_code=code_of(error), error_message=text))
        else:
            results.append(Result(name=name))
    response = CreatePartitionsResponse(results=results)
    return response if request.validate_only else Change(records, lambda: response)
