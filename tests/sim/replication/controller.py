"""The controller of one partition: the plans of refbroker's controller, without a log.

It keeps every state it had, as the metadata log would; a version of the metadata is the number of such a state.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kclient.errors import KafkaError, StaleBrokerEpochError
from kclient.protocol import Message
from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from kclient.protocol.messages.records.metadata_log import PartitionChangeRecord
from refbroker.controller.elections import plan_election
from refbroker.controller.isr import plan_alter_partition
from refbroker.controller.partition_changes import RECOVERING, Election
from refbroker.controller.reassignments import is_reassigning, plan_reassignment
from refbroker.metadata.image import PartitionState
from tests.support.controlled_cluster import ControlledCluster, registration

NO_LEADER = -1
TOPIC_ID = UUID(int=7)
TOPIC = "orders"


@dataclass
class SeenBroker:
    """A registration, as brokers see it."""

    broker_epoch: int
    fenced: bool = True
    in_controlled_shutdown: bool = False

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


@dataclass
class Image:
    """The metadata as of a version.

    Attributes:
        offset: of the last record.
    """

    partition: PartitionState
    brokers: dict[int, SeenBroker]
    offset: int = -1


class SimulatedController:
    """The controller of one partition.

    Parameters:
        replicas: the first assignment; all are in sync.
        session_ms: `broker.session.timeout.ms`.
        min_isr: `min.insync.replicas`.
        elr: whether eligible leader replicas are on (KIP-966).
        unclean: `unclean.leader.election.enable`.
        happened: counts rare events.

    Attributes:
        history: the metadata by version.
        unclean_elections: those outside ISR and ELR: leader epoch and leader.
    """

    def __init__(
        self,
        replicas: list[int],
        *,
        session_ms: int,
        min_isr: int,
        elr: bool,
        unclean: bool,
        happened: Callable[[str], None],
    ) -> None:
        self._cluster = ControlledCluster(has_eligible_leaders=elr, session_ms=session_ms, now_ms=0)
        self._happened = happened
        self.unclean_elections: list[tuple[int, int]] = []
        self.history: list[Image] = []
        for node in replicas:
            self._cluster.start(node)
        self._cluster.create(
            TOPIC,
            replicas,
            topic_id=TOPIC_ID,
            min_insync_replicas=str(min_isr),
            unclean_leader_election_enable=str(unclean).lower(),
        )
        self._publish()

    @property
    def version(self) -> int:
        return len(self.history) - 1

    @property
    def partition(self) -> PartitionState:
        return self._cluster.partition(TOPIC)

    @property
    def brokers(self) -> dict[int, SeenBroker]:
        return {
            node: SeenBroker(one.broker_epoch, one.fenced, one.in_controlled_shutdown)
            for node, one in self._cluster.image.brokers.items()
        }

    def _publish(self) -> None:
        self.history.append(Image(copy.copy(self.partition), self.brokers, self._cluster.image.next_offset - 1))

    def _commit(self, records: Sequence[Message]) -> None:
        for record in records:
            before = copy.copy(self.partition)
            self._cluster.commit([record])
            if isinstance(record, PartitionChangeRecord):
                self._note(before, record)
        if records:
            self._publish()

    def _note(self, before: PartitionState, record: PartitionChangeRecord) -> None:
        """Count what a change of the partition has led to."""
        after = self.partition
        if record.leader >= 0 and record.leader not in (before.isr or before.eligible_leader_replicas):
            self._happened("elected uncleanly")
            self.unclean_elections.append((after.leader_epoch, after.leader))
        elif record.leader >= 0 and record.leader not in before.isr:
            self._happened("elected from the ELR")
        if is_reassigning(before) and not is_reassigning(after):
            self._happened("reassigned")
        if set(after.isr) > set(before.isr):
            self._happened("isr expanded")
        elif set(after.isr) < set(before.isr):
            self._happened("isr shrunk")
        if record.leader_recovery_state == RECOVERING:
            self._happened("recovering")

    # Brokers

    def register(self, node: int, now_ms: int, *, clean: bool) -> int:
        """Register a new incarnation, and return its broker epoch.

        Parameters:
            clean: whether the previous one stopped cleanly.

        Raises:
            DuplicateBrokerRegistrationError: the session of the previous one has not expired.
        """
        self._cluster.now_ms = now_ms
        known = self._cluster.image.brokers.get(node)
        previous = known.broker_epoch if clean and known is not None else -1
        request = registration(node, incarnation=self._cluster.image.next_offset, previous=previous)
        records, epoch = self._cluster.plan_registration(request, 4)
        self._commit(records)
        return epoch

    def heartbeat(
        self, node: int, broker_epoch: int, version: int, now_ms: int, *, wants_shutdown: bool
    ) -> bool | None:
        """Take note of a heartbeat.

        Returns:
            Whether the broker may shut down; None if its epoch is not registered.
        """
        self._cluster.now_ms = now_ms
        request = BrokerHeartbeatRequest(
            broker_id=node,
            broker_epoch=broker_epoch,
            current_metadata_offset=self.history[version].offset if version >= 0 else -1,
            want_shut_down=wants_shutdown,
        )
        try:
            plan = self._cluster.plan_heartbeat(request)
        except StaleBrokerEpochError:
            return None
        self._commit(plan.records)
        plan.settle(self._cluster.image.next_offset - 1)
        return plan.response.should_shut_down

    def tick(self, now_ms: int) -> None:
        """Fence the brokers whose sessions have expired."""
        self._cluster.now_ms = now_ms
        while (records := self._cluster.plan_expiry()) is not None:
            self._commit(records)

    # The partition

    def elect(self) -> None:
        """Elect the preferred leader, if it can lead."""
        try:
            self._commit([plan_election(self._cluster.plans, TOPIC, 0, Election.PREFERRED)])
        except KafkaError as error:
            self._happened(f"no preferred leader: {type(error).__name__}")

    def elect_replica(self, node: int) -> None:
        """Move the leadership to a replica, if it is in sync and active, as an election does that prefers it."""
        state = self.partition
        if state.leader not in (node, NO_LEADER) and node in state.isr and self._cluster.image.brokers[node].is_active:
            self._commit([PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=node)])

    def reassign(self, target: list[int]) -> None:
        """Begin to move the partition to other replicas, unless it is being moved."""
        if is_reassigning(self.partition):
            return
        try:
            change = plan_reassignment(self._cluster.plans, TOPIC, 0, target, may_change_count=True)
        except KafkaError as error:
            self._happened(f"no reassignment: {type(error).__name__}")
        else:
            self._commit([] if change is None else [change])

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Answer a request."""
        try:
            plan = plan_alter_partition(self._cluster.plans, request, 3)
        except StaleBrokerEpochError as error:
            return AlterPartitionResponse(error_code=error.code)
        self._commit(plan.records)
        for topic in plan.response.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    self._happened(f"proposal refused with {partition.error_code}")
        return plan.response


def settings_of(rng: random.Random) -> tuple[int, bool, bool]:
    """Return `min.insync.replicas`, ELR, and unclean elections, for a seed; most have what protects best."""
    roll = rng.random()
    if roll < 0.6:
        return 2, True, False
    if roll < 0.8:
        return 1, rng.random() < 0.5, False
    return rng.choice((1, 2)), rng.random() < 0.7, rng.random() < 0.3
