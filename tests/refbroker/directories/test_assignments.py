"""AssignReplicasToDirs: what a broker under another controller tells it about the directories of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from kclient.errors import KafkaError, RequestTimedOutError
from kclient.protocol import Message
from kclient.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from kclient.protocol.messages.records.metadata_log import PartitionRecord, RegisterBrokerRecord, TopicRecord
from refbroker.directories.assignments import MOST_ASSIGNMENTS, DirectoryAssignments
from refbroker.metadata.directories import UNASSIGNED
from refbroker.metadata.image import ClusterImage
from tests.support.scripted_peers import simulated

A, B = UUID(int=100), UUID(int=200)
TOPIC = UUID(int=7)
Assigned = dict[UUID, list[int]]


class Setup:
    """Assignments of broker 1, whose controller answers when the test lets it."""

    def __init__(self, partitions: int = 2) -> None:
        self.image = ClusterImage()
        self.homes = dict.fromkeys(range(partitions), A)
        self.requests: list[AssignReplicasToDirsRequest] = []
        self.pending: list[asyncio.Future[Any]] = []
        self.asked = asyncio.Event()
        self.changes = 0
        self.image.replay(RegisterBrokerRecord(broker_id=1, broker_epoch=33))
        self.image.replay(TopicRecord(name="t", topic_id=TOPIC))
        for number in range(partitions):
            self.record(number, UNASSIGNED)
        self.assignments = DirectoryAssignments(self.image, 1, self, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def record(self, partition: int, directory: UUID, broker: int = 1) -> None:
        """Let the metadata have a partition in a directory."""
        self.image.replay(
            PartitionRecord(partition_id=partition, topic_id=TOPIC, replicas=[broker], directories=[directory])
        )

    def ask(self, request: Message) -> asyncio.Future[Any]:
        assert isinstance(request, AssignReplicasToDirsRequest)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.requests.append(request)
        self.pending.append(future)
        self.asked.set()
        return future

    async def asked_again(self) -> None:
        """Wait until the next request arrives."""
        self.asked.clear()
        await self.asked.wait()

    def report(self) -> None:
        self.assignments.report(lambda topic, partition: self.homes.get(partition))

    async def answer(self, outcome: Message | KafkaError | None = None) -> None:
        """Answer the oldest request; by default that everything is accepted."""
        future = self.pending.pop(0)
        if isinstance(outcome, KafkaError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome or accepted(self.requests[-1]))
        await asyncio.sleep(0)

    def sent(self) -> list[Assigned]:
        """Return the partitions of each request, by directory."""
        return [
            {each.id: [one.partition_index for topic in each.topics for one in topic.partitions] for each in found}
            for found in (request.directories for request in self.requests)
        ]


def accepted(request: AssignReplicasToDirsRequest, code: int = 0) -> AssignReplicasToDirsResponse:
    kind = AssignReplicasToDirsResponse
    return kind(
        directories=[
            kind.DirectoryData(
                id=directory.id,
                topics=[
                    kind.TopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            kind.PartitionData(partition_index=one.partition_index, error_code=code)
                            for one in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )


def run(script: Callable[[Setup], Coroutine[Any, Any, None]], partitions: int = 2) -> Setup:
    async def main() -> Setup:
        setup = Setup(partitions)
        await script(setup)
        setup.assignments.close()
        return setup

    return simulated(main())


def test_a_request_has_all_partitions_whose_directory_the_metadata_lacks() -> None:
    async def script(setup: Setup) -> None:
        setup.homes[1] = B
        setup.record(5, UNASSIGNED, broker=2)
        setup.report()

    setup = run(script)
    assert setup.sent() == [{A: [0], B: [1]}]
    assert (setup.requests[0].broker_id, setup.requests[0].broker_epoch, setup.changes) == (1, 33, 1)


def test_partitions_without_a_log_are_not_assigned() -> None:
    async def script(setup: Setup) -> None:
        setup.homes.clear()
        setup.report()

    assert run(script).sent() == []


def test_what_is_accepted_is_not_sent_again_before_the_metadata_has_it() -> None:
    async def script(setup: Setup) -> None:
        setup.report()
        await setup.answer()
        setup.report()
        setup.record(0, A)
        setup.record(1, A)
        setup.report()
        setup.homes[1] = B
        setup.report()

    assert run(script).sent() == [{A: [0, 1]}, {B: [1]}]


def test_one_request_is_in_flight_and_changes_meanwhile_follow_it() -> None:
    async def script(setup: Setup) -> None:
        setup.report()
        setup.record(2, UNASSIGNED)
        setup.homes[2] = B
        setup.report()
        assert len(setup.requests) == 1
        await setup.answer()

    assert run(script).sent() == [{A: [0, 1]}, {B: [2]}]


def test_a_failure_is_followed_by_another_attempt_later_and_later() -> None:
    async def script(setup: Setup) -> None:
        loop = asyncio.get_running_loop()
        setup.report()
        times = []
        for outcome in (RequestTimedOutError(), AssignReplicasToDirsResponse(error_code=77), None):
            await setup.answer(outcome or accepted(setup.requests[-1], code=3))
            began = loop.time()
            await setup.asked_again()
            times.append(loop.time() - began)
        await setup.answer()
        assert 0.09 < times[0] < 0.15 < times[1] < 0.25 < times[2] < 0.45

    assert run(script).sent() == [{A: [0, 1]}] * 4


def test_a_request_has_a_limit_and_the_rest_follows() -> None:
    async def script(setup: Setup) -> None:
        setup.report()
        setup.report()
        await setup.answer()

    setup = run(script, MOST_ASSIGNMENTS + 3)
    assert [len(found[A]) for found in setup.sent()] == [MOST_ASSIGNMENTS, 3]
