"""The markers of a transaction go to the leaders of its partitions, in one request for each broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kclient.errors import KafkaError, NotLeaderOrFollowerError
from refbroker.coordinators.transactions.markers import MarkerResults, MarkerSender
from refbroker.log import TransactionMarker
from refbroker.log.checkpoints import TopicPartitionKey
from tests.support.broker_harness import Harness

MARKER = TransactionMarker(4, 1, 0, commit=True, transaction_version=2)


class Destination:
    """A broker that answers when the test says so.

    Attributes:
        asked: the partitions of each request.
    """

    def __init__(self) -> None:
        self.asked: list[list[TopicPartitionKey]] = []
        self.answer: asyncio.Future[MarkerResults] = asyncio.get_running_loop().create_future()

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartitionKey]
    ) -> asyncio.Future[MarkerResults]:
        self.asked.append(list(partitions))
        return self.answer

    def respond(self, error: KafkaError | None) -> None:
        self.answer.set_result(dict.fromkeys(self.asked[-1], error))


async def test_each_leader_gets_one_request_and_the_slowest_decides(harness: Harness) -> None:
    harness.create("t", 4)
    harness.change("t", 1, leader=7, replicas=[7], isr=[7])
    harness.change("t", 3, leader=-1, isr=[])
    brokers: dict[int, Destination] = {}
    sender = MarkerSender(harness.broker.image, lambda leader: brokers.setdefault(leader, Destination()))
    waiting = sender.send(MARKER, [("t", 0), ("t", 1), ("t", 2), ("t", 3), ("t", 9), ("gone", 0)])
    assert isinstance(waiting, asyncio.Future)
    assert {leader: each.asked for leader, each in brokers.items()} == {
        1: [[("t", 0), ("t", 2)]],
        7: [[("t", 1)]],
        -1: [[("t", 3)]],
    }
    error = NotLeaderOrFollowerError("no leader")
    brokers[1].respond(None)
    brokers[-1].respond(error)
    await asyncio.sleep(0)
    assert not waiting.done()
    brokers[7].respond(None)
    assert await waiting == {("t", 0): None, ("t", 2): None, ("t", 1): None, ("t", 3): error}


async def test_partitions_that_are_gone_need_no_request(harness: Harness) -> None:
    sender = MarkerSender(harness.broker.image, lambda leader: Destination())
    assert sender.send(MARKER, [("gone", 0)]) == {}
