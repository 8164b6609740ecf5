"""Offsets over a network that loses, delays and repeats: what a group has committed never goes back, and is never
more than what was processed.

Three consumers share partitions that are redistributed at times, in order or not; the coordinator moves between
two brokers, and loads. The network delays a request for less than the client waits for its answer, and what is late
ends with its connection: a coordinator that carries out a commit after its client gave it up and sent a newer one could
not be distinguished from one that works, since nothing in the protocol orders the requests of two connections.
"""

from __future__ import annotations

import random
import time
import uuid
from typing import Any

import pytest

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.partition_state import FetchState
from kclient.consumer.assignment.reset import EARLIEST
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.committed.callbacks import CommitCallbacks
from kclient.consumer.committed.wiring import wire_group_offsets
from kclient.consumer.group.generation import Generation
from kclient.errors import (
    CommitFailedError,
    KafkaError,
    ProtocolError,
    RebalanceInProgressError,
    RetriableCommitFailedError,
)
from kclient.net.coordinator import GROUP, Coordinator
from kclient.protocol import Message
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kclient.types import OffsetAndMetadata, TopicPartition
from tests.support.engines.network import NO_FAULTS, Faults, Simulation, with_api_versions
from tests.support.typed import first_step

TOPIC_ID = uuid.UUID(int=9)
PARTITIONS = [TopicPartition("t", number) for number in range(6)]
NOT_COORDINATOR, LOADING, ILLEGAL_GENERATION, UNKNOWN_MEMBER = 16, 14, 22, 25

STORMY = Faults(
    refuse=0.1,
    lose_request=0.02,
    lose_answer=0.05,
    repeat_answer=0.1,
    cut_before=0.05,
    cut_after=0.05,
    late=0.1,
    late_delay=(0.5, 4.0),
    outlives=False,
)


class Group:
    """The brokers: which of them coordinates, what is stored, and whose the partitions are."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.node = 1
        self.loading_until = 0.0
        self.generation = 0
        self.members: set[str] = set()
        self.stored: dict[TopicPartition, int] = {}
        self.processed: dict[TopicPartition, int] = dict.fromkeys(PARTITIONS, 0)
        for node in (1, 2):
            simulation.brokers[f"b{node}"] = with_api_versions(
                lambda request, version, node=node: self.answer(node, request)  # type: ignore[misc]
            )

    def move(self) -> None:
        self.node = 3 - self.node
        self.loading_until = self.simulation.now + self.simulation.random.choice([0.0, 0.5])

    def answer(self, node: int, request: Message) -> Message:
        if isinstance(request, MetadataRequest):
            return self._metadata()
        if isinstance(request, FindCoordinatorRequest):
            one = FindCoordinatorResponse.Coordinator(key="g", node_id=self.node, host=f"b{self.node}", port=1)
            return FindCoordinatorResponse(coordinators=[one])
        code = NOT_COORDINATOR if node != self.node else LOADING if self.simulation.now < self.loading_until else 0
        if isinstance(request, OffsetFetchRequest):
            return self._fetch(request, code)
        assert isinstance(request, OffsetCommitRequest)
        return self._commit(request, code)

    def _metadata(self) -> MetadataResponse:
        partitions = [MetadataResponse.MetadataResponsePartition(partition_index=tp.partition) for tp in PARTITIONS]
        topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)
        brokers = [MetadataResponse.MetadataResponseBroker(node_id=n, host=f"b{n}", port=1) for n in (1, 2)]
        return MetadataResponse(cluster_id="c", brokers=brokers, topics=[topic])

    def _fetch(self, request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
        group = OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", topics=[], error_code=code)
        for topic in request.groups[0].topics or () if not code else ():
            answers = [
                OffsetFetchResponse.OffsetFetchResponsePartitions(
                    partition_index=number, committed_offset=self.stored.get(TopicPartition("t", number), -1)
                )
                for number in topic.partition_indexes
            ]
            group.topics.append(
                OffsetFetchResponse.OffsetFetchResponseTopics(
                    name=topic.name, topic_id=topic.topic_id, partitions=answers
                )
            )
        return OffsetFetchResponse(groups=[group])

    def _commit(self, request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
        if not code and request.member_id not in self.members:
            code = UNKNOWN_MEMBER
        if not code and request.generation_id_or_member_epoch != self.generation:
            code = ILLEGAL_GENERATION
        response = OffsetCommitResponse(topics=[])
        for topic in request.topics:
            for asked in topic.partitions:
                if not code:
                    self.store(TopicPartition("t", asked.partition_index), asked.committed_offset)
            answers = [
                OffsetCommitResponse.OffsetCommitResponsePartition(
                    partition_index=asked.partition_index, error_code=code
                )
                for asked in topic.partitions
            ]
            response.topics.append(
                OffsetCommitResponse.OffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=answers
                )
            )
        return response

    def store(self, tp: TopicPartition, offset: int) -> None:
        assert offset >= self.stored.get(tp, 0), f"{tp}: committed {self.stored.get(tp)}, then {offset}"
        assert offset <= self.processed[tp], f"{tp}: committed {offset}, processed only {self.processed[tp]}"
        self.stored[tp] = offset


class Client:
    """One consumer without its fetcher: it reads as many records as the test says."""

    def __init__(self, name: str, simulation: Simulation, group: Group, seed: int) -> None:
        self.name = name
        self.group = group
        self.generation: Generation | None = None
        self.rebalancing = False
        self.reported: list[int] = []
        self.asynchronous = 0
        self.waiting: list[Any] = []
        config = ConsumerConfig(
            bootstrap_servers="b1:1",
            group_id="g",
            request_timeout_ms=5_000,
            auto_commit_interval_ms=2_000,
            default_api_timeout_ms=60_000,
        )
        engine = self.engine = simulation.engine(config)
        self.subscription = Subscription(FetchBuffer(), EARLIEST, in_group=True, on_change=engine.wakeup)
        self.subscription.topics = ("t",)
        engine.metadata.add_topic("t")
        jitter = random.Random(seed)
        self.coordinator = Coordinator("g", GROUP, engine.nodes, config, random=jitter)
        self.offsets = wire_group_offsets(
            config,
            engine,
            self.subscription,
            self.coordinator,
            self,
            place=lambda: None,
            random=jitter,
            callbacks=CommitCallbacks(None, lambda: None),
        )
        for manager in (*self.offsets.managers, self.coordinator):
            engine.add(manager)

    def generation_now(self) -> Generation | None:
        return self.generation

    def last_generation(self) -> Generation | None:
        return self.generation

    def on_refused(self, generation: Generation, error: KafkaError, now: float) -> None:
        """The test knows whose the partitions are."""

    def poll(self, count: int) -> None:
        """Ask for records: what was given before is processed; then take some of each partition that is ready."""
        self.offsets.run_callbacks()
        for state in self.subscription.partitions.values():
            if state.state is FetchState.AWAITING_RESET:
                assert state.tp not in self.group.stored, "reset in spite of a committed offset"
                self.subscription.reset_to(state, state.generation, 0, -1)
            if self.generation is not None and state.position is not None:
                self.group.processed[state.tp] = max(self.group.processed[state.tp], state.position.offset)
        self.offsets.asked()
        for state in self.subscription.partitions.values():
            if state.position is not None:
                state.position = state.position._replace(offset=state.position.offset + count)

    def processed_positions(self) -> dict[tuple[str, int], OffsetAndMetadata | int]:
        states = self.subscription.partitions.values()
        return {state.tp: state.returned.offset for state in states if state.returned is not None}

    def commit_async(self) -> None:
        number = self.asynchronous
        self.asynchronous += 1

        def told(offsets: Any, error: KafkaError | None) -> None:
            # An answer that came twice breaks its connection, and whatever else is under way there.
            allowed = (RetriableCommitFailedError, RebalanceInProgressError, CommitFailedError, ProtocolError)
            assert error is None or isinstance(error, allowed), error
            self.reported.append(number)

        self.offsets.commit_async(self.processed_positions(), told)

    def commit(self) -> None:
        try:
            self.waiting.append(first_step(self.offsets.commit(self.processed_positions(), 30.0)).future)
        except (RebalanceInProgressError, CommitFailedError):
            assert self.generation is None


class Run:
    """One seeded run."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.simulation = Simulation(seed, STORMY)
        self.group = Group(self.simulation)
        self.clients = [Client(name, self.simulation, self.group, seed) for name in ("m0", "m1", "m2")]
        self.rebalance()

    def rebalance(self) -> None:
        """Distribute the partitions again; some members revoke theirs in order, the others lose them."""
        for client in self.clients:
            if client.generation is not None and self.rng.random() < 0.6:
                # What it was given counts as processed, since it asks for more.
                client.poll(0)
                operation = client.offsets.commit_before_rebalance(time.monotonic() + 60.0)
                step = first_step(operation)
                self.simulation.run(20.0, until=step.future.done)
                operation.close()
            client.generation = None
            client.rebalancing = self.rng.random() < 0.5
        self.group.generation += 1
        self.group.members.clear()
        if self.rng.random() < 0.7:
            self.simulation.run(self.rng.choice([0.0, 0.01, 3.0]))
        owners = [client for client in self.clients if self.rng.random() < 0.8] or self.clients[:1]
        dealt: dict[str, list[TopicPartition]] = {client.name: [] for client in self.clients}
        for tp in PARTITIONS:
            dealt[self.rng.choice(owners).name].append(tp)
        for client in self.clients:
            # Of one that lost its partitions nothing counts as processed that is not committed.
            client.subscription.assign_from_group([])
            client.rebalancing = False
            if client in owners:
                self.group.members.add(client.name)
                client.generation = Generation(self.group.generation, client.name, None, "range")
                client.subscription.assign_from_group(dealt[client.name])

    def step(self) -> None:
        self.simulation.run(self.rng.choice([0.001, 0.01, 0.3, 2.0]))
        action, client = self.rng.random(), self.rng.choice(self.clients)
        if action < 0.5:
            client.poll(self.rng.randint(0, 5))
        elif action < 0.7:
            client.commit_async()
        elif action < 0.8:
            client.commit()
        elif action < 0.85:
            self.group.move()
        elif action < 0.9:
            self.rebalance()


@pytest.mark.parametrize("number", range(20))
def test_committed_offsets_never_go_back_and_are_never_ahead(number: int, rng: random.Random) -> None:
    run = Run(rng.randrange(2**32))
    for _ in range(150):
        run.step()
    run.simulation.faults = NO_FAULTS
    run.simulation.run(70.0)
    for client in run.clients:
        client.poll(0)
        client.commit()
    run.simulation.run(40.0)
    for client in run.clients:
        client.offsets.run_callbacks()
        assert client.reported == list(range(client.asynchronous)), "callbacks in order, each once"
        assert all(future.done() for future in client.waiting)
        for tp, state in client.subscription.partitions.items():
            if client.generation is not None:
                assert state.position is not None
                assert run.group.stored.get(tp) == state.position.offset, f"{tp}: what was processed is not committed"
    assert run.group.stored
