"""A broker, its network and a few producers under a script: nothing is lost or refused but what a test names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from kclient.errors import KafkaError
from kclient.protocol import Message
from kclient.protocol.messages.delete_topics import DeleteTopicsRequest
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse
from kclient.records import read_batches
from tests.sim.committed_reader import CommittedReader
from tests.sim.ledger import PARTITIONS
from tests.sim.transaction_broker import HOST, SimulatedBroker
from tests.sim.transaction_clients import Program, SimulatedProducer, TransactionalProducer
from tests.support.engines.network import GONE, Gone, Later, Simulation
from tests.support.transaction_harness import DATA

LONG = 60.0
"""Seconds within which everything ends that does at all."""


@dataclass
class Loss:
    """A request that gets lost, and its connection with it.

    Attributes:
        fits: which; it strikes once.
        carried_out: whether it is the answer that gets lost.
        late: seconds after which the request is carried out nevertheless; None for never.
    """

    fits: Callable[[Message], bool]
    carried_out: bool = False
    late: float | None = None


class Refusal(NamedTuple):
    """An error code with which the broker refuses the next Produce request that carries a value."""

    value: bytes
    error_code: int


class Script:
    """A simulation in which nothing fails but what the test says.

    Attributes:
        losses, refusals: to come.
    """

    def __init__(self, path: Path, *, version: int = 2) -> None:
        self.simulation = Simulation(1, wakes_all=False)
        self.broker = SimulatedBroker(self.simulation, path, version=version, power=False)
        self.simulation.brokers[HOST] = self._answer
        self.losses: list[Loss] = []
        self.refusals: list[Refusal] = []

    def _answer(self, request: Message, version: int) -> Message | Later | Gone | None:
        if isinstance(request, ProduceRequest):
            carried = values(request)
            refusal = next((refusal for refusal in self.refusals if refusal.value in carried), None)
            if refusal is not None:
                self.refusals.remove(refusal)
                return refused(request, refusal.error_code)
        loss = next((loss for loss in self.losses if loss.fits(request)), None)
        if loss is None:
            return self.broker.answer(request, version)
        self.losses.remove(loss)
        if loss.carried_out:
            self.broker.answer(request, version)
        elif loss.late is not None:
            self.simulation.later(loss.late, lambda: self.broker.answer(request, version))
        return GONE

    def lose(self, kind: type[Message], **how: Any) -> None:
        """Let the next request of a kind get lost, or its answer; see `Loss`."""
        self.losses.append(Loss(lambda request: isinstance(request, kind), **how))

    def lose_value(self, value: bytes, **how: Any) -> None:
        """Let the next Produce request that carries a value get lost, or its answer."""
        self.losses.append(
            Loss(lambda request: isinstance(request, ProduceRequest) and value in values(request), **how)
        )

    def refuse_value(self, value: bytes, error_code: int) -> None:
        """Let the broker refuse the next Produce request that carries a value; it writes nothing of it."""
        self.refusals.append(Refusal(value, error_code))

    def create_again(self) -> UUID:
        """Delete the topic, create another one under its name, and return the id of the new one."""
        deleted = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=DATA)])
        assert self.broker.send(deleted, 6).responses[0].error_code == 0
        return self.broker.create(DATA, len(PARTITIONS))

    # Clients

    async def producer(self, **options: Any) -> SimulatedProducer:
        """An idempotent producer that knows the topic."""
        made = SimulatedProducer(self.simulation, lambda: None, **options)
        await self.pass_time(LONG, until=lambda: DATA in made.accumulator.topics)
        return made

    async def transactional(self, name: str = "x", **options: Any) -> TransactionalProducer:
        """A transactional producer that is initialized."""
        made = TransactionalProducer(self.simulation, lambda: None, transactional_id=name, **options)
        await self.do(made.call(made.transactions.initialize, LONG))
        assert DATA in made.accumulator.topics
        return made

    async def do(self, program: Program) -> Any:
        """What a program comes to."""
        try:
            while True:
                wait = next(program)
                await self.pass_time(wait.deadline - self.simulation.now, until=wait.condition)
        except StopIteration as stop:
            return stop.value

    async def settled(self, *futures: Any) -> list[KafkaError | None]:
        """Of each record the error, or None."""
        await self.pass_time(LONG, until=lambda: all(future.done() for future in futures))
        return [future.exception(0) for future in futures]

    async def pass_time(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass."""
        simulation, broker = self.simulation, self.broker
        end = simulation.now + seconds
        while simulation.now < end and not until():
            await broker.take_turns()
            simulation.run(min(0.2, end - simulation.now), until=lambda: broker.wants_turns or until())

    # What is there

    def stored(self, partition: int = 0) -> list[bytes]:
        """The values in a log, from its start."""
        log = self.broker.log(DATA, partition)
        found: list[bytes] = []
        at = log.log_start_offset
        while at < log.log_end_offset:
            batches = list(read_batches(log.read(at, 1 << 20).records.read()))
            found += [record.value or b"" for one in batches if not one.is_control for record in one.records()]
            at = batches[-1].next_offset
        return found

    def committed(self) -> list[bytes]:
        """The values that a reader of committed records sees, of all partitions."""
        readers = [CommittedReader(self.broker, partition) for partition in PARTITIONS]
        return [record.value or b"" for reader in readers for record in reader.read()]

    def close(self) -> None:
        """Release everything."""
        self.broker.shut()


def values(request: ProduceRequest) -> list[bytes]:
    """The values that a request carries."""
    return [
        record.value or b""
        for topic in request.topic_data
        for data in topic.partition_data
        for batch in read_batches(data.records or b"")
        for record in batch.records()
    ]


def refused(request: ProduceRequest, error_code: int) -> ProduceResponse:
    """Return the answer that refuses every partition of a request."""
    kind = ProduceResponse.PartitionProduceResponse
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    kind(index=data.index, error_code=error_code, base_offset=-1) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )
