"""A broker of the simulation: the real machines, driven as a broker drives them, over a log in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kclient.errors import KafkaError, OffsetOutOfRangeError
from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from refbroker.replication import divergence
from refbroker.replication.alter_partition import AlterPartitionQueue
from refbroker.replication.fetcher import (
    Action,
    Append,
    FetchAnswer,
    Fetcher,
    FetchTarget,
    FindOffsets,
    Restart,
    Truncate,
)
from refbroker.replication.isr import IsrAnswer, IsrProposal
from refbroker.replication.partition import Acks, Partition, ReplicaConfig
from tests.sim.replication.controller import NO_LEADER, TOPIC_ID, Image, SeenBroker
from tests.sim.replication.memory_log import Entry, MemoryLog

LAG_MS = 300
BACKOFF_MS = 20
MOST_RECORDS = 4
KEY = (TOPIC_ID, 0)


class NeverThrottled:
    """A throttle that holds back nothing."""

    def holds_back(self, _topic: str, _partition: int, _now_ms: int, *, in_sync: bool) -> bool:
        return False


class FetchedData(NamedTuple):
    """A response of a leader to one partition.

    Attributes:
        read: returns the records when the response is sent.
    """

    answer: FetchAnswer
    read: Callable[[], list[Entry]]


@dataclass
class PendingProduce:
    """A write with acks=all that waits."""

    offset: int
    entry: Entry


@dataclass
class Events:
    """What a node tells the simulation: who did it, and what; `happened` counts rare events."""

    acknowledged: Callable[[Node, int, Entry], None]
    appended: Callable[[Node, int, Entry], None]
    led: Callable[[Node], None]
    moved: Callable[[Node, int], None]
    happened: Callable[[str], None]


@dataclass
class Node:
    """A broker.

    Attributes:
        log: the disk; it survives the process.
        clock_ms: returns its time.
        incarnation: the number of the process.
        alive: whether the process runs.
        version: of the metadata that was applied last, -1 for none.
        min_version: the version of its registration, before which it applies nothing.
        lost: whether records were lost, and neither the controller nor a leader has made up for it.
        matched_epoch: the last leader epoch in which it led, or its log was found to be a prefix of the leader's.
        pending: writes that wait for replication.
    """

    node_id: int
    min_isr: int
    clock_ms: Callable[[], int]
    events: Events
    log: MemoryLog = field(default_factory=MemoryLog)
    incarnation: int = 0
    alive: bool = True
    paused: bool = False
    shutting_down: bool = False
    broker_epoch: int = -1
    version: int = -1
    min_version: int = 0
    lost: bool = False
    matched_epoch: int = -1
    pending: list[PendingProduce] = field(default_factory=list)

    def start(self) -> None:
        """Begin a new process, which knows nothing but its log."""
        self.incarnation += 1
        self.alive, self.paused, self.shutting_down = True, False, False
        self.version = -1
        self.matched_epoch = -1
        self.pending = []
        self.brokers: dict[int, SeenBroker] = {}
        config = ReplicaConfig(LAG_MS, self.min_isr)
        self.partition = Partition("orders", 0, self.node_id, self.log, self.brokers, config)
        self.fetcher = Fetcher(BACKOFF_MS, NeverThrottled())
        self.queue = AlterPartitionQueue(self.node_id)
        self.fetching = False

    def stop(self) -> None:
        self.alive = False
        self.pending = []

    # Metadata

    def apply(self, image: Image, version: int) -> None:
        """Take over a state of the metadata."""
        self.version = version
        self.brokers.clear()
        self.brokers.update(image.brokers)
        self.partition.broker_epoch = self.broker_epoch
        state, partition = image.partition, self.partition
        if self.node_id not in state.replicas:
            if partition.role is not None:
                partition.remove()
                partition.removed()
                self.fetcher.forget(("orders", 0))
                self._fail_pending()
                self.log.restart_at(0)
            return
        if state.leader == self.node_id:
            self.fetcher.forget(("orders", 0))
            led = partition.lead(state, self.clock_ms())
            if led is not None:
                if led.epoch is not None:
                    self.log.begin_leader_epoch(led.epoch)
                self.matched_epoch = partition.leader_epoch
                self.events.led(self)
                self._move(led.high_watermark)
            return
        followed = partition.follow(state)
        if followed is None:
            return
        self._fail_pending()
        if followed.leader == NO_LEADER:
            self.fetcher.forget(("orders", 0))
        else:
            truncation = self.fetcher.follow("orders", 0, TOPIC_ID, followed.leader_epoch, self.log)
            if truncation is not None:
                self.log.truncate_to(truncation.offset)

    def _fail_pending(self) -> None:
        self.pending = []

    # The leader

    def produce(self, value: int) -> bool:
        """Append a record with acks=all, if this node believes that it leads."""
        partition = self.partition
        try:
            partition.check_leader()
            partition.check_in_sync(-1)
        except KafkaError:
            return False
        entry = Entry(partition.leader_epoch, value)
        offset = self.log.append(entry)
        self.events.appended(self, offset, entry)
        self.pending.append(PendingProduce(offset, entry))
        self._move(partition.high_watermark(self.clock_ms()))
        return True

    def _move(self, high_watermark: int) -> None:
        before = self.log.high_watermark
        self.log.update_high_watermark(high_watermark)
        if self.log.high_watermark != before:
            self.events.moved(self, before)
        still: list[PendingProduce] = []
        for one in self.pending:
            acks = self.partition.acks_for(one.offset + 1, one.entry.epoch)
            if acks is Acks.REPLICATED:
                self.events.acknowledged(self, one.offset, one.entry)
            elif acks is Acks.WAITING:
                still.append(one)
            else:
                self.events.happened(acks.value)
        self.pending = still

    def serve(self, replica_id: int, broker_epoch: int, target: FetchTarget, rng: random.Random) -> FetchedData:
        """Answer the fetch of a follower."""
        log, now_ms = self.log, self.clock_ms()
        end = log.log_end_offset
        try:
            self.partition.check_leader(target.leader_epoch)
            self.partition.check_follower(replica_id, broker_epoch, target.leader_epoch)
            if target.last_fetched_epoch >= 0:
                found = log.end_offset_for_epoch(target.last_fetched_epoch)
                diverging = divergence.diverging_epoch(
                    found, target.last_fetched_epoch, target.fetch_offset, log.log_start_offset
                )
                if diverging is not None:
                    return FetchedData(FetchAnswer(0, diverging), list)
            if not log.log_start_offset <= target.fetch_offset <= end:
                raise OffsetOutOfRangeError
        except KafkaError as error:
            return FetchedData(FetchAnswer(error.code or -1), list)
        answer = FetchAnswer(0, None, log.high_watermark, log.log_start_offset)
        start, stop = target.fetch_offset, min(end, target.fetch_offset + rng.randint(1, MOST_RECORDS))
        progress = self.partition.record_fetch(replica_id, start, target.log_start_offset, end, broker_epoch, now_ms)
        self._move(progress.high_watermark)
        self._submit(progress.proposal)
        incarnation = self.incarnation
        # The bytes leave the file when they are sent.
        return FetchedData(answer, lambda: log.read(start, stop) if self.incarnation == incarnation else [])

    def offsets(self, leader_epoch: int) -> tuple[int, int] | int:
        """Return log start and log end for a follower, or an error code."""
        try:
            self.partition.check_leader(leader_epoch)
        except KafkaError as error:
            return error.code or -1
        return self.log.log_start_offset, self.log.log_end_offset

    def shrink(self) -> None:
        self._submit(self.partition.propose_shrink(self.clock_ms()))

    def _submit(self, proposal: IsrProposal | None) -> None:
        if proposal is not None:
            refused = self.queue.submit(KEY, proposal)
            if refused is not None:
                self.events.happened("proposal not attempted")
                self._answered(proposal, refused)

    def next_alter_partition(self) -> AlterPartitionRequest | None:
        return self.queue.next_request(self.broker_epoch, self.clock_ms())

    def on_alter_partition(self, response: AlterPartitionResponse | None) -> None:
        """Take note of a response; None if there was none."""
        if response is None:
            self.queue.on_failure(self.clock_ms())
            return
        for _, proposal, answer in self.queue.on_response(response, self.clock_ms()):
            self._answered(proposal, answer)

    def _answered(self, proposal: IsrProposal, answer: IsrAnswer) -> None:
        progress = self.partition.answered(proposal, answer, self.clock_ms())
        self._move(progress.high_watermark)
        self._submit(progress.proposal)

    # The follower

    def on_fetched(self, target: FetchTarget, answer: FetchAnswer, records: list[Entry]) -> FindOffsets | None:
        """Take note of a response; return a question for the leader."""
        action = self.fetcher.on_answer(target, answer, self.clock_ms())
        if not isinstance(action, Append):
            return self._run(action)
        count = divergence.batches_to_append(records, action.leader_epoch)
        if count < len(records):
            self.events.happened("batches of later epochs")
        for entry in records[:count]:
            self.events.appended(self, self.log.append(entry), entry)
        figures = self.fetcher.appended(target, answer, self.clock_ms())
        if figures is not None:
            self.matched_epoch = target.leader_epoch
            self.lost = False
            self._move(figures.high_watermark)
            self.log.delete_records(figures.log_start_offset)
        return None

    def on_offsets(self, asked: FindOffsets, answer: tuple[int, int] | int) -> None:
        """Take note of the leader's log start and log end, or its error."""
        if isinstance(answer, int):
            self.fetcher.on_offsets_error(asked, answer, self.clock_ms())
        else:
            self._run(self.fetcher.on_offsets(asked, *answer))

    def _run(self, action: Action | None) -> FindOffsets | None:
        if isinstance(action, FindOffsets):
            self.events.happened("out of range")
            return action
        if isinstance(action, Truncate):
            self.events.happened("truncated" if action.offset < self.log.log_end_offset else "truncated to its end")
            self.log.truncate_to(action.offset)
            self.fetcher.truncated(action.key)
        elif isinstance(action, Restart):
            self.events.happened("emptied")
            self.log.restart_at(action.offset)
            self.fetcher.truncated(action.key)
        return None
