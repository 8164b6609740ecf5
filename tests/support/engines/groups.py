"""Members of a classic group in the simulated network: brokers that coordinate it like refbroker, and owners that poll.

One broker coordinates; the coordinator may move to another broker, which loads the stored group. An owner is a
consumer's engine, membership and subscription without fetching. A test polls it at any time, and may interrupt it
wherever it waits.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any

from kclient.config import ConsumerConfig
from kclient.consumer.assignment.fetch_buffer import FetchBuffer
from kclient.consumer.assignment.reset import EARLIEST
from kclient.consumer.assignment.subscription import Subscription
from kclient.consumer.assignment.topics import choose
from kclient.consumer.group.listener import RebalanceListener
from kclient.consumer.group.membership import wire_member, wire_membership
from kclient.consumer.group.poll_interval import PollInterval
from kclient.errors import FencedInstanceIdError, KafkaError, KafkaTimeoutError, NotCoordinatorError, WakeupError
from kclient.net.manager import NEVER
from kclient.net.operation import Call, Operation, Pause, Result
from kclient.protocol import Message
from kclient.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.protocol.messages.records.consumer_offsets import GroupMetadataValue
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kclient.types import TopicPartition
from refbroker.coordinators.groups.classic.group import ClassicGroup
from refbroker.coordinators.groups.classic.machine import ClassicGroups
from refbroker.coordinators.groups.classic.rebalancing import GroupSettings
from refbroker.coordinators.groups.classic.requests import Caller
from refbroker.metrics.counters import GroupStats
from refbroker.runtime.error_codes import code_of
from tests.support.engines.network import Later, Simulation, with_api_versions

GROUP = "g"
SESSION_MS = 10_000
POLL_MS = 30_000


class Coordinating:
    """One broker's term as the coordinator; timers of an earlier term do nothing."""

    def __init__(self, cluster: GroupCluster) -> None:
        self._cluster = cluster
        self._timers: dict[str, object] = {}
        self.groups: dict[str, ClassicGroup] = {}
        self.over = False
        numbers = cluster.numbers
        settings = GroupSettings(initial_rebalance_delay_ms=1_000)
        self.classic = ClassicGroups(self.groups, self, settings, lambda: str(next(numbers)), GroupStats())

    def now(self) -> int:
        return int(self._cluster.simulation.now * 1000)

    def schedule(
        self, name: str, delay_ms: int, operation: Callable[[], Any], retry_after_ms: int | None = None
    ) -> None:
        token = self._timers[name] = object()

        def due() -> None:
            if self._timers.get(name) is token and not self.over:
                del self._timers[name]
                self.carry_out(operation)

        self._cluster.simulation.later(delay_ms / 1000, due)

    def cancel(self, name: str) -> None:
        self._timers.pop(name, None)

    def carry_out(self, operation: Callable[[], Any]) -> Any:
        result = operation()
        for record in result.records:
            assert record.value is None or isinstance(record.value, GroupMetadataValue)
            self._cluster.stored = record.value
        if result.written is not None:
            result.written(None)
        return result.response


class GroupCluster:
    """Three brokers, some topics, and the group.

    Attributes:
        topics: number of partitions by topic.
        stored: the group's last stored record.
    """

    def __init__(self, simulation: Simulation, **topics: int) -> None:
        self.simulation = simulation
        self.topics = topics
        self.numbers = itertools.count(1)
        self.stored: GroupMetadataValue | None = None
        self.coordinator = 1
        self.turn = Coordinating(self)
        for node in (1, 2, 3):
            simulation.brokers[f"b{node}"] = with_api_versions(lambda r, v, node=node: self.answer(node, r, v))  # type: ignore[misc]

    def move(self, node: int) -> None:
        """Move the coordinator to another broker, which loads the stored group."""
        before, self.turn = self.turn, Coordinating(self)
        for group in before.groups.values():
            before.classic.on_unloaded(group)
        before.over = True
        self.coordinator = node
        if self.stored is not None:
            group = ClassicGroup.from_record(GROUP, self.stored, self.turn.now)
            self.turn.groups[GROUP] = group
            self.turn.classic.on_loaded(group)

    def accepts(self, owner: Owner) -> bool:
        """Return whether the coordinator would accept an offset commit of a member."""
        group = self.turn.groups.get(GROUP)
        generation = owner.group.member.generation_now()
        if generation is None or group is None:
            return False
        return generation.member_id in group.members and group.generation == generation.id

    def answer(self, node: int, request: Message, version: int) -> Message | Later | None:
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        if isinstance(request, FindCoordinatorRequest):
            found = FindCoordinatorResponse.Coordinator(
                key=GROUP, node_id=self.coordinator, host=f"b{self.coordinator}", port=1
            )
            return FindCoordinatorResponse(coordinators=[found])
        if node != self.coordinator:
            return self._declined(request)
        turn, later = self.turn, Later()
        if isinstance(request, JoinGroupRequest):
            turn.carry_out(lambda: turn.classic.on_join_group(Caller(version, "c", "/h"), request, later.give))
            return later
        if isinstance(request, SyncGroupRequest):
            turn.carry_out(lambda: turn.classic.on_sync_group(request, later.give))
            return later
        try:
            if isinstance(request, HeartbeatRequest):
                answer: Message = turn.carry_out(lambda: turn.classic.on_heartbeat(request))
            else:
                assert isinstance(request, LeaveGroupRequest)
                answer = turn.carry_out(lambda: turn.classic.on_leave_group(request))
        except KafkaError as error:
            kind = HeartbeatResponse if isinstance(request, HeartbeatRequest) else LeaveGroupResponse
            return kind(error_code=code_of(error))
        return answer

    def _declined(self, request: Message) -> Message:
        answers: dict[type, Any] = {
            JoinGroupRequest: JoinGroupResponse,
            SyncGroupRequest: SyncGroupResponse,
            HeartbeatRequest: HeartbeatResponse,
            LeaveGroupRequest: LeaveGroupResponse,
        }
        answer: Message = answers[type(request)](error_code=NotCoordinatorError.code)
        return answer

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        found = []
        for name in names:
            partitions = [
                MetadataResponse.MetadataResponsePartition(partition_index=number, leader_id=1, leader_epoch=0)
                for number in range(self.topics.get(name, 0))
            ]
            error = 0 if name in self.topics else 3
            found.append(MetadataResponse.MetadataResponseTopic(name=name, error_code=error, partitions=partitions))
        brokers = [MetadataResponse.MetadataResponseBroker(node_id=node, host=f"b{node}", port=1) for node in (1, 2, 3)]
        return MetadataResponse(cluster_id="c", brokers=brokers, topics=found)


class OwnedListener(RebalanceListener):
    """A listener that records the partitions of its owner, and calls `check` for each assigned partition."""

    def __init__(self, owner: Owner, check: Callable[[Owner, TopicPartition], None]) -> None:
        self.owner = owner
        self.check = check
        self.owned: set[TopicPartition] = set()
        self.heard: list[tuple[str, set[TopicPartition]]] = []
        self.membership = -1

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("assigned", set(partitions)))
        for tp in partitions:
            assert tp not in self.owned, f"{tp} was assigned twice"
            self.check(self.owner, tp)
        self.owned |= set(partitions)
        self.membership = self.owner.group.member.membership

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("revoked", set(partitions)))
        assert set(partitions) <= self.owned
        assert self.membership == self.owner.group.member.membership, "what was lost is not revoked in order"
        self.owned -= set(partitions)

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.heard.append(("lost", set(partitions)))
        assert set(partitions) <= self.owned
        self.owned -= set(partitions)


class Owner:
    """A consumer in the group that fetches no records.

    Attributes:
        name: the group instance id of a static member.
        errors: what polling raised.
    """

    def __init__(
        self,
        simulation: Simulation,
        topics: Any = "t",
        *,
        check: Callable[[Owner, TopicPartition], None] = lambda owner, tp: None,
        **options: Any,
    ) -> None:
        self.simulation = simulation
        config = ConsumerConfig(
            **{
                "bootstrap_servers": "b1:1,b2:1,b3:1",
                "group_id": GROUP,
                "session_timeout_ms": SESSION_MS,
                "max_poll_interval_ms": POLL_MS,
                "request_timeout_ms": 5_000,
                **options,
            }
        )
        self.engine = engine = simulation.engine(config)
        self.subscription = Subscription(FetchBuffer(), EARLIEST, in_group=True)
        engine.metadata.add_listener(self.subscription.update_metadata)
        self.changed = False
        self._interrupted = False
        jitter = random.Random(simulation.random.random())
        poll_interval = PollInterval(config.max_poll_interval_ms, lambda: None)
        parts = wire_member(config, engine, random=jitter, poll_interval=poll_interval, wake=self._wake)
        self.group = wire_membership(
            config, engine, self.subscription, parts, commits=self, wait=self._wait, wake=self._wake
        )
        for manager in parts.managers:
            engine.add(manager)
        self.listener = self.group.coordination.listener = OwnedListener(self, check)
        self.name = config.group_instance_id
        self.errors: list[BaseException] = []
        self.commits = 0
        self._committing: Future[None] | None = None
        self._running: Operation[bool] | None = None
        self._step: Pause | Result | None = None
        self.subscribe(topics)

    def subscribe(self, topics: Any) -> None:
        choice = choose(topics)
        self.subscription.subscribe(choice)
        self.engine.metadata.want_all = bool(choice.patterns)
        self.engine.metadata.set_topics(choice.names)
        self.subscription.update_metadata(self.engine.metadata.cluster)

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self.subscription.partitions)

    def commit_before_rebalance(self, deadline: float) -> Operation[bool]:
        """Commit as `Commits` does; it takes a moment, in which the owner can be interrupted."""
        if self._committing is None:
            done: Future[None] = Future()
            self._committing = done
            self.simulation.later(0.01, lambda: done.set_result(None))
        try:
            yield Result(self._committing, deadline)
        except KafkaTimeoutError:
            return False
        self._committing = None
        self.commits += 1
        return True

    def wakeup(self) -> None:
        """Interrupt the wait of the current or the next call, like `Consumer.wakeup`."""
        self._interrupted = True

    def _wait(self, seconds: float) -> Operation[None]:
        if self._interrupted:
            self._interrupted = False
            raise WakeupError
        yield Pause(seconds)

    def _wake(self) -> None:
        self.changed = True

    def poll(self, timeout: float = 0.0) -> bool | None:
        """Start or continue a poll as far as it goes; return True when the poll may return records."""
        if self._running is None:
            self._running = self.group.step(self.simulation.now + timeout)
            self._step = None
        outcome: Any = None
        failure: Exception | None = None
        step: Pause | Result | Call | None = self._step
        try:
            while True:
                if isinstance(step, Result):
                    if step.future.done():
                        outcome = step.future.result()
                    elif self.simulation.now >= step.deadline:
                        failure = KafkaTimeoutError()
                    else:
                        self._step = step
                        return None
                elif isinstance(step, Call):
                    try:
                        outcome = step.function(*step.arguments)
                    except AssertionError:
                        raise
                    except Exception as error:  # noqa: BLE001 - the operation decides
                        failure = error
                step = self._running.send(outcome) if failure is None else self._running.throw(failure)
                outcome = failure = None
                if isinstance(step, Pause):
                    self._step = step
                    return None
        except StopIteration as stop:
            self._running = None
            done: bool = stop.value
            return done
        except KafkaError as error:
            self._running = None
            self.errors.append(error)
            return None

    def interrupt(self) -> None:
        """Interrupt a poll wherever it waits, as Ctrl-C or a cancelled task does."""
        running, self._running = self._running, None
        if running is not None:
            running.close()

    def leave(self) -> None:
        """Leave the group and close."""
        self.carry_out(self.group.leave(NEVER, leave_group=None, reason="a test"), 60)
        self.die()

    def carry_out(self, operation: Operation[Any], seconds: float) -> None:
        """Run an operation instead of the current poll, until it ends or for this many seconds."""
        self.interrupt()
        self._running, self._step = operation, None
        self.simulation.run(seconds, until=lambda: self.poll() is not None or self._running is None)

    def die(self) -> None:
        """Stop without leaving the group, as a killed process does."""
        self.simulation.drop(self.engine)
        self.listener.owned.clear()

    @property
    def fenced(self) -> bool:
        return any(isinstance(error, FencedInstanceIdError) for error in self.errors)
