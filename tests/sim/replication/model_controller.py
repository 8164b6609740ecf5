"""A model of the controller for one partition: registrations, fencing, elections, ELR, AlterPartition.

It decides as Kafka's ReplicationControlManager and PartitionChangeBuilder do, and keeps every state it had, as the
metadata log would: the version of a state is its offset.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from kclient.errors import (
    FencedLeaderEpochError,
    IneligibleReplicaError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotControllerError,
    StaleBrokerEpochError,
)
from kclient.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from refbroker.metadata.image import PartitionState

NO_LEADER = -1
TOPIC_ID = UUID(int=7)


@dataclass
class ModelBroker:
    """A registration.

    Attributes:
        version: of the metadata with the registration.
        last_seen_ms: the last heartbeat.
    """

    broker_epoch: int
    version: int
    last_seen_ms: int
    fenced: bool = True
    shutting_down: bool = False

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.shutting_down


@dataclass
class Image:
    """The metadata as of a version."""

    partition: PartitionState
    brokers: dict[int, ModelBroker]


class ModelController:
    """The controller of one partition.

    Parameters:
        replicas: the first assignment; all are in sync.
        min_isr: `min.insync.replicas`.
        elr: whether eligible leader replicas are on (KIP-966).
        unclean: `unclean.leader.election.enable`.
        happened: counts rare events.

    Attributes:
        history: the metadata by version.
        unclean_elections: those outside ISR and ELR: leader epoch and leader.
    """

    def __init__(
        self, replicas: list[int], *, min_isr: int, elr: bool, unclean: bool, happened: Callable[[str], None]
    ) -> None:
        self.partition = PartitionState(0, replicas, list(replicas), replicas[0], 0, 0, [], [], [])
        self.brokers: dict[int, ModelBroker] = {}
        self.min_isr = min_isr
        self.elr = elr
        self.unclean = unclean
        self._happened = happened
        self.unclean_elections: list[tuple[int, int]] = []
        self.history: list[Image] = []
        for node in replicas:
            self.brokers[node] = ModelBroker(node, 0, 0, fenced=False)
        self._publish()

    @property
    def version(self) -> int:
        return len(self.history) - 1

    def _publish(self) -> None:
        self.history.append(Image(copy.copy(self.partition), {id: copy.copy(b) for id, b in self.brokers.items()}))

    # Brokers

    def register(self, node: int, now_ms: int, *, clean: bool) -> int:
        """Register a new incarnation, and return its broker epoch.

        Parameters:
            clean: whether the previous one stopped cleanly.
        """
        # Epochs are offsets in Kafka, too; those of the first registrations are the node ids.
        epoch = 100 + len(self.history)
        self.brokers[node] = ModelBroker(epoch, self.version + 1, now_ms)
        state = self.partition
        unclean = {node} if self.elr and not clean else set()
        isr = [each for each in state.isr if each != node]
        if unclean:
            state.eligible_leader_replicas = [each for each in state.eligible_leader_replicas if each != node]
        self._change(isr, unclean=unclean)
        self._publish()
        return epoch

    def heartbeat(
        self, node: int, broker_epoch: int, version: int, now_ms: int, *, wants_shutdown: bool
    ) -> bool | None:
        """Take note of a heartbeat.

        Returns:
            Whether the broker may shut down; None if its epoch is not registered.
        """
        broker = self.brokers.get(node)
        if broker is None or broker.broker_epoch != broker_epoch:
            return None
        broker.last_seen_ms = now_ms
        if wants_shutdown:
            if not broker.shutting_down:
                broker.shutting_down = True
                self._change([each for each in self.partition.isr if each != node])
                self._publish()
            return self.partition.leader != node
        if broker.fenced and version >= broker.version:
            broker.fenced = False
            self._change(self.partition.isr)
            self._publish()
        return False

    def tick(self, now_ms: int, session_ms: int) -> None:
        """Fence the brokers whose sessions have ended."""
        for node, broker in self.brokers.items():
            if not broker.fenced and now_ms - broker.last_seen_ms > session_ms:
                broker.fenced = True
                self._change([each for each in self.partition.isr if each != node])
                self._publish()

    # The partition

    def _change(self, isr: list[int], *, unclean: set[int] | None = None) -> None:
        """Bring the partition to a new ISR, and elect a leader if necessary.

        Parameters:
            unclean: brokers that stopped uncleanly, and may have lost records.
        """
        state = self.partition
        before, old_isr = copy.copy(state), state.isr
        state.isr = isr if isr or self.elr else old_isr
        leader = self._elect()
        self._keep_eligible(
            old_isr, unclean or set(), was_unclean=(state.leader_epoch + 1, leader) in self.unclean_elections
        )
        if leader != state.leader:
            if leader == NO_LEADER and not state.last_known_elr:
                state.last_known_elr = [state.leader]
            elif leader != NO_LEADER:
                state.last_known_elr = []
            state.leader = leader
            state.leader_epoch += 1
        if state != before:
            state.partition_epoch += 1

    def _elect(self) -> int:
        state = self.partition
        alive = [node for node in state.replicas if self._is_active(node)]
        if state.leader in state.isr and state.leader in alive:
            return state.leader
        candidates = [node for node in alive if node in state.isr]
        if candidates:
            return candidates[0]
        if not state.isr:
            candidates = [node for node in alive if node in state.eligible_leader_replicas]
            if candidates:
                self._happened("elected from the ELR")
                state.isr = [candidates[0]]
                return candidates[0]
            if self.elr and not state.eligible_leader_replicas:
                candidates = [node for node in alive if state.last_known_elr == [node]]
        if self.unclean:
            candidates = candidates or alive
        if not candidates:
            return NO_LEADER
        self._happened("elected uncleanly")
        self.unclean_elections.append((state.leader_epoch + 1, candidates[0]))
        state.isr = [candidates[0]]
        return candidates[0]

    def _keep_eligible(self, old_isr: list[int], unclean: set[int], *, was_unclean: bool) -> None:
        state = self.partition
        if was_unclean or not self.elr or len(state.isr) >= min(self.min_isr, len(state.replicas)):
            state.eligible_leader_replicas = []
            return
        candidates = dict.fromkeys([*state.eligible_leader_replicas, *old_isr])
        state.eligible_leader_replicas = [
            node for node in candidates if node not in state.isr and node not in unclean and node in state.replicas
        ]

    def _is_active(self, node: int) -> bool:
        return node in self.brokers and self.brokers[node].is_active

    def elect(self, node: int) -> None:
        """Move the leadership to a replica, if it is in sync, as an election of the preferred leader does."""
        state = self.partition
        if state.leader not in (node, NO_LEADER) and node in state.isr and self._is_active(node):
            state.leader = node
            state.leader_epoch += 1
            state.partition_epoch += 1
            self._publish()

    def reassign(self, target: list[int]) -> None:
        """Begin to move the partition to other replicas."""
        state = self.partition
        if state.adding_replicas or state.removing_replicas or sorted(target) == sorted(state.replicas):
            return
        state.adding_replicas = [node for node in target if node not in state.replicas]
        state.removing_replicas = [node for node in state.replicas if node not in target]
        state.replicas = [*target, *state.removing_replicas]
        state.partition_epoch += 1
        self._complete_reassignment()
        self._publish()

    def _complete_reassignment(self) -> None:
        state = self.partition
        if not (state.adding_replicas or state.removing_replicas):
            return
        isr = [node for node in state.isr if node not in state.removing_replicas]
        replicas = [node for node in state.replicas if node not in state.removing_replicas]
        if not isr or not set(state.adding_replicas) <= set(isr):
            return
        self._happened("reassigned")
        state.replicas, state.adding_replicas, state.removing_replicas = replicas, [], []
        state.eligible_leader_replicas = [node for node in state.eligible_leader_replicas if node in replicas]
        leader_epoch = state.leader_epoch
        self._change(isr)
        if state.leader_epoch == leader_epoch:
            # A leader with other replicas needs a new leader epoch.
            state.leader_epoch += 1
            state.partition_epoch += 1

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Answer a request, whose proposals are all for the one partition."""
        broker = self.brokers.get(request.broker_id)
        if broker is None or broker.broker_epoch != request.broker_epoch:
            return AlterPartitionResponse(error_code=StaleBrokerEpochError.code)
        answers = [self._alter(request.broker_id, one) for topic in request.topics for one in topic.partitions]
        return AlterPartitionResponse(topics=[AlterPartitionResponse.TopicData(topic_id=TOPIC_ID, partitions=answers)])

    def _alter(
        self, broker_id: int, asked: AlterPartitionRequest.PartitionData
    ) -> AlterPartitionResponse.PartitionData:
        state = self.partition
        error = self._check(broker_id, asked)
        if error:
            self._happened(f"proposal refused with {error}")
        answer = AlterPartitionResponse.PartitionData(partition_index=0, error_code=error)
        if error:
            return answer
        isr = [member.broker_id for member in asked.new_isr_with_epochs]
        if set(isr) != set(state.isr):
            self._happened("isr expanded" if set(isr) > set(state.isr) else "isr shrunk")
            self._change([node for node in state.replicas if node in isr])
            self._complete_reassignment()
            self._publish()
        answer.leader_id, answer.leader_epoch = state.leader, state.leader_epoch
        answer.isr, answer.partition_epoch = list(state.isr), state.partition_epoch
        return answer

    def _check(self, broker_id: int, asked: AlterPartitionRequest.PartitionData) -> int:
        state = self.partition
        isr = {member.broker_id: member.broker_epoch for member in asked.new_isr_with_epochs}
        if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch:
            return NotControllerError.code
        if asked.leader_epoch < state.leader_epoch:
            return FencedLeaderEpochError.code
        if broker_id != state.leader:
            return InvalidRequestError.code
        if asked.partition_epoch < state.partition_epoch:
            return InvalidUpdateVersionError.code
        if not set(isr) <= set(state.replicas) or state.leader not in isr:
            return InvalidRequestError.code
        for node, epoch in isr.items():
            if not self._is_active(node) or epoch not in (-1, self.brokers[node].broker_epoch):
                return IneligibleReplicaError.code
        return 0


def settings_of(rng: random.Random) -> tuple[int, bool, bool]:
    """Return `min.insync.replicas`, ELR, and unclean elections, for a seed; most have what protects best."""
    roll = rng.random()
    if roll < 0.6:
        return 2, True, False
    if roll < 0.8:
        return 1, rng.random() < 0.5, False
    return rng.choice((1, 2)), rng.random() < 0.7, rng.random() < 0.3
