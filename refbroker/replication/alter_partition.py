"""The requests to the controller that change the in-sync replicas, AlterPartition.

One request is in flight for each broker, with the proposals of all its partitions. Proposals that arrive meanwhile
wait for the next one. A partition has one proposal at a time here: a second one is refused with
OPERATION_NOT_ATTEMPTED, since the controller might have applied the first. After an error of the whole request, or
without an answer for a partition, the proposals stay and are sent again.

Elsewhere: what the answer of a partition means (`isr`), and the way to the controller.

Source: KIP-497; Kafka's DefaultAlterPartitionManager.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from kclient.errors import OperationNotAttemptedError
from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from refbroker.replication.isr import NO_ERROR, IsrAnswer, IsrProposal

RETRY_MS = 50
NOT_ATTEMPTED = IsrAnswer(OperationNotAttemptedError.code)
Key = tuple[UUID, int]


class AnsweredProposal(NamedTuple):
    """The answer to a proposal of a partition, for `Partition.answered`."""

    key: Key
    proposal: IsrProposal
    answer: IsrAnswer


class AlterPartitionQueue:
    """The proposals of a broker's partitions that the controller has not answered.

    Parameters:
        broker_id: this broker's id.
    """

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self._unanswered: dict[Key, IsrProposal] = {}
        self._in_flight: dict[Key, IsrProposal] | None = None
        self._not_before_ms = 0

    def __len__(self) -> int:
        return len(self._unanswered)

    def submit(self, key: Key, proposal: IsrProposal) -> IsrAnswer | None:
        """Add a proposal for the next request.

        Parameters:
            key: topic id and number of the partition.
            proposal: of the partition.

        Returns:
            None; or, if an earlier proposal of the partition has not been answered, the answer to this one.
        """
        if self._unanswered.setdefault(key, proposal) is not proposal:
            return NOT_ATTEMPTED
        return None

    def next_request(self, broker_epoch: int, now_ms: int) -> AlterPartitionRequest | None:
        """Return the next request, None if there is nothing to send, or not yet.

        Parameters:
            broker_epoch: of this broker.
            now_ms: the time, milliseconds.
        """
        if self._in_flight is not None or not self._unanswered or now_ms < self._not_before_ms:
            return None
        self._in_flight = dict(self._unanswered)
        request = AlterPartitionRequest(broker_id=self._broker_id, broker_epoch=broker_epoch)
        topics: dict[UUID, AlterPartitionRequest.TopicData] = {}
        for (topic_id, partition), proposal in self._in_flight.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = AlterPartitionRequest.TopicData(topic_id=topic_id)
                request.topics.append(topic)
            topic.partitions.append(_partition(partition, proposal))
        return request

    def next_due_ms(self) -> int | None:
        """Return from when on the next request can be sent; None while one is in flight, or without proposals."""
        return None if self._in_flight is not None or not self._unanswered else self._not_before_ms

    def on_response(self, response: AlterPartitionResponse, now_ms: int) -> list[AnsweredProposal]:
        """Return the answers of a response; proposals without an answer are sent again.

        Parameters:
            response: to the request in flight.
            now_ms: the time, milliseconds.
        """
        sent, self._in_flight = self._in_flight or {}, None
        if response.error_code != NO_ERROR:
            self._not_before_ms = now_ms + RETRY_MS
            return []
        answers = {
            (topic.topic_id, one.partition_index): IsrAnswer(
                one.error_code, tuple(one.isr), one.leader_epoch, one.partition_epoch
            )
            for topic in response.topics
            for one in topic.partitions
        }
        answered = [AnsweredProposal(key, proposal, answers[key]) for key, proposal in sent.items() if key in answers]
        for key, _, _ in answered:
            del self._unanswered[key]
        return answered

    def on_failure(self, now_ms: int) -> None:
        """Send the proposals in flight again, after a pause, because no response arrived.

        Parameters:
            now_ms: the time, milliseconds.
        """
        self._in_flight = None
        self._not_before_ms = now_ms + RETRY_MS


def _partition(number: int, proposal: IsrProposal) -> AlterPartitionRequest.PartitionData:
    return AlterPartitionRequest.PartitionData(
        partition_index=number,
        leader_epoch=proposal.leader_epoch,
        new_isr=[broker_id for broker_id, _ in proposal.isr],
        new_isr_with_epochs=[
            AlterPartitionRequest.BrokerState(broker_id=broker_id, broker_epoch=epoch)
            for broker_id, epoch in proposal.isr
        ],
        leader_recovery_state=proposal.leader_recovery_state,
        partition_epoch=proposal.partition_epoch,
    )
