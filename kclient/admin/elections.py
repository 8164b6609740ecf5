"""Elections of partition leaders: the preferred replica, or one that was not in sync (KIP-183, KIP-460).

Elsewhere: the choice of the leader, which is the controller's.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from kclient.admin.arguments import instance, partitions
from kclient.admin.core import AdminCore, Outcomes, settled
from kclient.errors import ElectionNotNeededError, KafkaError, error_from_code, raise_for_code
from kclient.net.deadline import Deadline
from kclient.net.operation import Operation
from kclient.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kclient.types import TopicPartition

_UNCLEAN_FROM = 1
"""The first version with a type of the election; before it every election is of the preferred leader."""


class ElectionType(IntEnum):
    """Which replica an election makes the leader, by Kafka's number."""

    PREFERRED = 0
    """The preferred replica, which is the first one, if it is alive and in sync."""
    UNCLEAN = 1
    """For a partition without a leader: any replica that is alive, also one that lost records."""


def elect_leaders(
    core: AdminCore, election_type: ElectionType, wanted: Iterable[TopicPartition] | None, deadline: Deadline
) -> Operation[dict[TopicPartition, bool]]:
    instance(election_type, ElectionType, deadline.name)
    keys = None if wanted is None else list(dict.fromkeys(partitions(wanted, deadline.name)))
    if keys is not None and not keys:
        return {}
    kind = ElectLeadersRequest
    topics: list[ElectLeadersRequest.TopicPartitions] | None = None
    if keys is not None:
        by_topic: dict[str, list[int]] = {}
        for key in keys:
            by_topic.setdefault(key.topic, []).append(key.partition)
        topics = [kind.TopicPartitions(topic=name, partitions=numbers) for name, numbers in by_topic.items()]

    def build(version: int) -> ElectLeadersRequest:
        return kind(election_type=election_type, topic_partitions=topics, timeout_ms=int(deadline.remaining() * 1000))

    def attempt() -> Operation[ElectLeadersResponse]:
        minimum = None if election_type is ElectionType.PREFERRED else _UNCLEAN_FROM
        answer: ElectLeadersResponse = yield from core.request(core.controller(), kind, build, deadline, minimum)
        raise_for_code(answer.error_code)
        return answer

    answer = yield from core.retry(attempt, deadline)
    core.engine.metadata.request_update()
    outcomes: Outcomes[TopicPartition, bool] = {
        TopicPartition(topic.topic, each.partition_id): _outcome(topic.topic, each)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    }
    return settled(sorted(outcomes) if keys is None else keys, outcomes)


def _outcome(topic: str, result: ElectLeadersResponse.PartitionResult) -> bool | KafkaError:
    if result.error_code == ElectionNotNeededError.code:
        return False
    if result.error_code:
        return error_from_code(result.error_code, result.error_message, topic=topic, partition=result.partition_id)
    return True
