"""The active controller: the node that appends to the metadata log.

It is the only voter, so what is on its disk is committed: a change is encoded, appended, synced and replayed in one
turn of the event loop. Records that belong together are one batch, which is atomic in a crash; too many records for a
batch are enclosed in BeginTransaction and EndTransaction (KIP-866). Each start begins a new leader epoch with a
LeaderChange control record (KIP-595).

Not implemented: a quorum of several voters; a cluster that needs one uses Kafka's controllers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from kclient.errors import InconsistentClusterIdError, KafkaStorageError, NotControllerError
from kclient.protocol import Message
from kclient.protocol.messages.records.control import LeaderChangeMessage
from kclient.protocol.messages.records.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kclient.records import BatchBuilder
from refbroker.config import BrokerConfig
from refbroker.controller.balance import BalancePlan, plan_preferred_leaders, plan_unclean_leaders
from refbroker.controller.change import Change
from refbroker.controller.cluster import Cluster
from refbroker.controller.controller import Controller
from refbroker.controller.heartbeats import fence_expired
from refbroker.controller.liveness import Liveness
from refbroker.log import Files
from refbroker.log.files import storage_errors
from refbroker.metadata.control_records import VoterSet, control_batch
from refbroker.metadata.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from refbroker.metadata.replica import MetadataReplica
from refbroker.metadata.versions import TRANSACTIONS, encode_record
from refbroker.runtime.clock import Clock

MOST_RECORDS = 10_000
"""The maximum of records in one batch; more of them become a transaction."""

_INT32_MAX = 2**31 - 1


class ActiveController(Controller):
    """The active controller of the cluster.

    Parameters:
        replica: the metadata log of this node, and the image.
        files: the disk.
        config: the settings of this node.
        clock: the clock of the node.
        rng: for ids.
        cluster_id: the id of the cluster.

    Attributes:
        epoch: the leader epoch of this controller.
        liveness: the sessions of brokers.
    """

    def __init__(
        self,
        replica: MetadataReplica,
        files: Files,
        config: BrokerConfig,
        clock: Clock,
        rng: random.Random,
        cluster_id: str,
    ) -> None:
        super().__init__(replica.image, config, files, rng)
        self.epoch = 0
        self.cluster_id = cluster_id
        self._replica = replica
        self._clock = clock
        self.liveness = Liveness(
            replica.image, config.integer("broker.session.timeout.ms"), clock.elapsed_ms(), local=config.node_id
        )

    @property
    def now_ms(self) -> int:
        """The time, for sessions of brokers; it never goes back."""
        return self._clock.elapsed_ms()

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._replica.end_offset

    @property
    def high_watermark(self) -> int:
        """The offset up to which records are committed."""
        return self._replica.high_watermark

    @property
    def voters(self) -> VoterSet:
        """The voters, as far as records contain them."""
        return self._replica.voters

    def load(self) -> None:
        """Replay the whole log, which a single voter has committed.

        Raises:
            CorruptRecordError, ProtocolError: a record cannot be read.
            KafkaStorageError: the disk fails.
            InconsistentClusterIdError: there are other voters.
        """
        self._replica.load()
        self._replica.advance(self._replica.end_offset)
        directory = self._replica.directory
        with storage_errors(f"read the quorum's state in {directory}"):
            state = read_quorum_state(self.files, directory)
        self._check_voters(state)
        self.epoch = max(self._replica.last_epoch, 0 if state is None else state.leader_epoch)

    def _check_voters(self, state: QuorumState | None) -> None:
        """Check that no other node can be the leader of this log."""
        known = self.voters.voters
        if known is not None:
            voters = {voter.voter_id for voter in known.voters}
        else:
            voters = set() if state is None else set(state.voters)
        if voters - {self.node_id}:
            raise InconsistentClusterIdError(
                f"the metadata in {self._replica.directory} belongs to the controllers {sorted(voters)}; this broker, "
                f"node {self.node_id}, can continue only with the data of a single controller"
            )

    def begin_epoch(self) -> None:
        """Become the leader of the log, in an epoch that was never used.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self.epoch += 1
        directory, node = self._replica.directory, self.node_id
        with storage_errors(f"write the quorum's state in {directory}"):
            state = QuorumState(node, self.epoch, (node,))
            write_quorum_state(self.files, directory, state, self.voters.kraft_version)
        voter = LeaderChangeMessage.Voter(voter_id=node)
        first: list[Message] = [LeaderChangeMessage(leader_id=node, voters=[voter], granting_voters=[voter])]
        if not self._replica.has_voters:
            # A new log takes the voters from the snapshot of formatting, which is not replicated.
            first += self.voters.records()
        self._replica.append(control_batch(first, self._clock()), self.epoch, (), first)
        self._replica.advance(self.end_offset)
        self.cluster.index.load()
        self.liveness.load(self.now_ms)
        # First, because other listeners may look up what the change has led to.
        self._replica.listeners.insert(0, self._follow)
        if self._replica.in_transaction:
            self.append([AbortTransactionRecord(reason="the broker stopped before the transaction was complete")])

    def _follow(self, records: Sequence[Message]) -> None:
        self.cluster.index.follow(records)
        self.liveness.follow(records)

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller; false on a broker under other controllers."""
        return self.epoch > 0

    def append(self, records: Sequence[Message]) -> None:
        """Store records atomically, and replay them.

        Raises:
            NotControllerError: this node is not the active controller.
            KafkaStorageError: the disk fails; nothing has changed. If records are in the log, this node stops.
        """
        if not records:
            return
        if not self.is_active:
            raise NotControllerError("the metadata is changed by the active controller, not by this node")
        most, level, now = MOST_RECORDS, self.image.metadata_version, self._clock()
        if level < TRANSACTIONS:
            most = len(records)
        if len(records) > most:
            records = [BeginTransactionRecord(), *records, EndTransactionRecord()]
        begun = self.end_offset
        try:
            for first in range(0, len(records), most):
                some = records[first : first + most]
                builder = BatchBuilder(max_bytes=_INT32_MAX)
                for record in some:
                    builder.append(now, None, encode_record(record, level))
                self._replica.append(builder.build(), self.epoch, some)
            self._replica.flush()
        except KafkaStorageError as error:
            if self.end_offset != begun:
                # The next change would take effect together with this one, or be lost in its transaction.
                self._replica.fail(error)
            raise
        self._replica.advance(self.end_offset)

    def commit(self, change: Change) -> Message:
        """Append the records of a change, and return the response, which is sent when the change has taken effect.

        Raises:
            KafkaStorageError: the disk fails; nothing has changed.
        """
        self.append(change.records)
        return change.respond()

    # Work at intervals

    def fence_expired(self) -> None:
        """Fence the brokers whose sessions have expired.

        Raises:
            KafkaStorageError: the disk fails.
        """
        while (records := fence_expired(self.cluster, self.liveness, self.now_ms)) is not None:
            self.append(records)

    def balance_leaders(self) -> None:
        """Elect the preferred leaders that can lead again, if `auto.leader.rebalance.enable` is set.

        Raises:
            KafkaStorageError: the disk fails.
        """
        if self.config.boolean("auto.leader.rebalance.enable"):
            self._carry_out(plan_preferred_leaders)

    def elect_unclean_leaders(self) -> None:
        """Elect leaders for partitions without one, where the topic allows replicas that are not in sync.

        Raises:
            KafkaStorageError: the disk fails.
        """
        self._carry_out(plan_unclean_leaders)

    def _carry_out(self, plan: Callable[[Cluster], BalancePlan]) -> None:
        while True:
            records, has_more = plan(self.cluster)
            self.append(records)
            if not has_more:
                break
