"""The queue of proposals to the controller: one request at a time, with everything that waits."""

from __future__ import annotations

from uuid import UUID

from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from refbroker.replication.alter_partition import NOT_ATTEMPTED, RETRY_MS, AlterPartitionQueue
from refbroker.replication.isr import IsrAnswer, IsrProposal

A, B = (UUID(int=1), 0), (UUID(int=1), 1)
C = (UUID(int=2), 0)


def proposal(epoch: int = 3) -> IsrProposal:
    return IsrProposal(((1, 10), (2, -1)), 7, epoch)


def accept(request: AlterPartitionRequest, *, without: int | None = None) -> AlterPartitionResponse:
    """Return a response that accepts all partitions but the one with the number `without`."""
    return AlterPartitionResponse(
        topics=[
            AlterPartitionResponse.TopicData(
                topic_id=topic.topic_id,
                partitions=[
                    AlterPartitionResponse.PartitionData(
                        partition_index=one.partition_index, leader_epoch=7, isr=[1, 2], partition_epoch=4
                    )
                    for one in topic.partitions
                    if one.partition_index != without
                ],
            )
            for topic in request.topics
        ]
    )


def test_request_has_the_proposals_of_all_partitions_by_topic() -> None:
    queue = AlterPartitionQueue(1)
    for key in (A, B, C):
        assert queue.submit(key, proposal()) is None
    request = queue.next_request(10, 0)
    assert request is not None
    assert (request.broker_id, request.broker_epoch) == (1, 10)
    found = [(topic.topic_id, one.partition_index) for topic in request.topics for one in topic.partitions]
    assert found == [A, B, C]
    one = request.topics[0].partitions[0]
    assert (one.leader_epoch, one.partition_epoch) == (7, 3)
    assert [(each.broker_id, each.broker_epoch) for each in one.new_isr_with_epochs] == [(1, 10), (2, -1)]
    assert one.new_isr == [1, 2]


def test_one_request_is_in_flight_and_the_rest_waits() -> None:
    queue = AlterPartitionQueue(1)
    queue.submit(A, proposal())
    request = queue.next_request(10, 0)
    assert request is not None
    later = proposal()
    queue.submit(B, later)
    assert queue.next_request(10, 0) is None
    assert [each.key for each in queue.on_response(accept(request), 0)] == [A]
    following = queue.next_request(10, 0)
    assert following is not None
    (answered,) = queue.on_response(accept(following), 0)
    assert answered == (B, later, IsrAnswer(0, (1, 2), 7, 4))
    assert not len(queue)


def test_second_proposal_of_a_partition_is_not_attempted() -> None:
    queue = AlterPartitionQueue(1)
    first = proposal()
    assert queue.submit(A, first) is None
    assert queue.submit(A, first) is None
    assert queue.submit(A, proposal(4)) is NOT_ATTEMPTED


def test_error_of_the_whole_request_sends_all_again_after_a_pause() -> None:
    queue = AlterPartitionQueue(1)
    queue.submit(A, proposal())
    queue.next_request(10, 0)
    assert queue.on_response(AlterPartitionResponse(error_code=77), 100) == []
    assert queue.next_due_ms() == 100 + RETRY_MS
    assert queue.next_request(10, 100 + RETRY_MS - 1) is None
    again = queue.next_request(11, 100 + RETRY_MS)
    assert again is not None
    assert again.broker_epoch == 11


def test_partition_without_an_answer_is_sent_again() -> None:
    queue = AlterPartitionQueue(1)
    queue.submit(A, proposal())
    queue.submit(B, proposal())
    request = queue.next_request(10, 0)
    assert request is not None
    assert [each.key for each in queue.on_response(accept(request, without=1), 0)] == [A]
    again = queue.next_request(10, 0)
    assert again is not None
    assert [one.partition_index for one in again.topics[0].partitions] == [1]


def test_lost_response_sends_all_again_after_a_pause() -> None:
    queue = AlterPartitionQueue(1)
    queue.submit(A, proposal())
    queue.next_request(10, 0)
    assert queue.next_due_ms() is None
    queue.on_failure(0)
    assert queue.next_due_ms() == RETRY_MS
    assert queue.next_request(10, RETRY_MS) is not None
