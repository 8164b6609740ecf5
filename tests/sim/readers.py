"""Consumers of a simulated group that read and commit: each record of a partition is its number, and there are always
more. The coordinator keeps offsets as refbroker does; who reads them has no fetcher.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.partition_state import FetchState
from kclient.consumer.committed.callbacks import CommitCallbacks
from kclient.consumer.committed.wiring import wire_group_offsets
from kclient.errors import KafkaError, NotCoordinatorError
from kclient.net.operation import Operation
from kclient.protocol import Message
from kclient.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kclient.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kclient.protocol.messages.records.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from kclient.types import TopicPartition
from refbroker.coordinators.groups.offset_requests import OffsetRequests
from refbroker.coordinators.groups.offsets import NO_PRODUCER, CommittedOffsets
from tests.support.engines.groups import GROUP, GroupCluster, Owner
from tests.support.engines.network import Later, Simulation


class CommittingCluster(GroupCluster):
    """A group whose offsets are kept.

    Attributes:
        offsets: what is committed.
        processed: how far each partition was processed, by anyone.
        refused: how often somebody could not commit, by the error's code.
        on_commit: told of each offset that is about to be stored, with the member's id.
    """

    def __init__(self, simulation: Simulation, **topics: int) -> None:
        super().__init__(simulation, **topics)
        self.offsets = CommittedOffsets()
        self.processed: dict[TopicPartition, int] = defaultdict(int)
        self.refused: dict[int, int] = defaultdict(int)
        self.on_commit: Callable[[str, TopicPartition], None] = lambda member_id, tp: None

    def committed(self, tp: TopicPartition) -> int | None:
        found = self.offsets.of_group(GROUP).get(tp.topic, {}).get(tp.partition)
        return None if found is None else found.offset

    def answer(self, node: int, request: Message, version: int) -> Message | Later | None:
        if isinstance(request, OffsetCommitRequest):
            return self._commit(node, request, version)
        if isinstance(request, OffsetFetchRequest):
            if node != self.coordinator:
                declined = OffsetFetchResponse.OffsetFetchResponseGroup(
                    group_id=GROUP, error_code=NotCoordinatorError.code
                )
                return OffsetFetchResponse(groups=[declined])
            found = self._requests().fetch(GROUP, request.groups[0].topics, require_stable=False)
            return OffsetFetchResponse(groups=[found])
        return super().answer(node, request, version)

    def _requests(self) -> OffsetRequests:
        turn = self.turn
        return OffsetRequests(turn.groups, {}, self.offsets, 4096, turn.now, turn.classic.keep_alive)

    def _commit(self, node: int, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        try:
            if node != self.coordinator:
                raise NotCoordinatorError
            result = self._requests().commit(request, version)
        except KafkaError as error:
            self.refused[error.code or -1] += 1
            return _refusal(request, error.code or -1)
        for record in result.records:
            assert isinstance(record.key, OffsetCommitKey)
            assert isinstance(record.value, OffsetCommitValue)
            self._check(request.member_id, record.key, record.value)
            self.offsets.replay(record.key, record.value, NO_PRODUCER, next(self.numbers))
        return result.response

    def _check(self, member_id: str, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        tp = TopicPartition(key.topic, key.partition)
        before = self.committed(tp) or 0
        assert value.offset >= before, f"{tp}: {before} was committed, and then {value.offset} by {member_id}"
        assert value.offset <= self.processed[tp], f"{tp}: {value.offset} is committed, and not processed"
        self.on_commit(member_id, tp)


def _refusal(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    response = OffsetCommitResponse(topics=[])
    for topic in request.topics:
        one = OffsetCommitResponse.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        for asked in topic.partitions:
            number = asked.partition_index
            one.partitions.append(
                OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=number, error_code=code)
            )
        response.topics.append(one)
    return response


class Reader(Owner):
    """A member that takes some records of each of its partitions with each poll, and commits by itself.

    Attributes:
        cluster: which it is a client of.
        offsets: commits for it.
    """

    def __init__(self, cluster: CommittingCluster, topics: Any, **options: Any) -> None:
        simulation = cluster.simulation
        super().__init__(simulation, topics, auto_commit_interval_ms=1_000, **options)
        self.cluster = cluster
        config = ConsumerConfig(
            bootstrap_servers="b1:1",
            group_id=GROUP,
            request_timeout_ms=5_000,
            auto_commit_interval_ms=1_000,
            group_instance_id=options.get("group_instance_id"),
        )
        engine, group = self.engine, self.group
        self.offsets = wire_group_offsets(
            config,
            engine,
            self.subscription,
            group.coordinator,
            group.member,
            place=lambda: None,
            random=random.Random(simulation.random.random()),
            callbacks=CommitCallbacks(None, self._wake),
        )
        for manager in self.offsets.managers:
            engine.add(manager)

    def commit_before_rebalance(self, deadline: float) -> Operation[bool]:
        return self.offsets.commit_before_rebalance(deadline)

    def poll(self, timeout: float = 0.0) -> bool | None:
        if self._running is None:
            self.offsets.run_callbacks()
            self._process()
            self.offsets.asked()
        ready = super().poll(timeout)
        if ready:
            self._take()
        return ready

    def leave(self) -> None:
        """Close: what was handed out is processed."""
        self.interrupt()
        self._process()
        super().leave()

    def _process(self) -> None:
        """Who asks for more has done with what there was."""
        for tp, state in self.subscription.partitions.items():
            if state.position is not None:
                self.cluster.processed[tp] = max(self.cluster.processed[tp], state.position.offset)

    def _take(self) -> None:
        for tp, state in self.subscription.partitions.items():
            if state.state is FetchState.AWAITING_RESET:
                assert self.cluster.committed(tp) is None, f"{tp}: reset in spite of a committed offset"
                self.subscription.reset_to(state, state.generation, 0, -1)
            if state.position is not None:
                position = state.position
                assert position.offset <= self.cluster.processed[tp], f"{tp}: records were omitted"
                state.position = position._replace(offset=position.offset + self.simulation.random.randrange(4))
