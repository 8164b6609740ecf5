"""What must hold after every step of the simulation.

The numbers are those of the list in docs/internals/replication.md; the names in capitals are those of the TLA+ models
in hachikuji/kafka-specification.

    1  StrongIsr: below the high watermark of a presumed leader all members of the controller's ISR have its records
    2  LeaderInIsr, or no leader
    3  log matching: a record with the same epoch and offset is the same everywhere, and so is all that precedes it
    4  a high watermark does not decrease while a replica leads; what was below one never disappears or changes
    5  a record acknowledged with acks=all survives while one member of ISR and ELR keeps all that it appended
    6  one writer for each epoch; partition and leader epochs increase; epoch caches ascend
    7  a high watermark that moves is at most the log end of each replica in the maximal ISR, and min.insync.replicas
       are in sync
    8  ELR and ISR have no common member, and members of the ELR have all below the high watermarks

What an unclean election gives up, or a failure that costs every keeper of a record its disk, is excused.

Elsewhere: images of the metadata (9) and coordinators (10), which this layer does not have.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tests.sim.replication.controller import NO_LEADER, SimulatedController
from tests.sim.replication.memory_log import Entry
from tests.sim.replication.node import Node


class Violation(AssertionError):
    """An invariant that does not hold."""


@dataclass(slots=True)
class Committed:
    """A record below some high watermark.

    Attributes:
        keepers: the members of ISR and ELR at that time which have lost nothing since.
        lost_by: the nodes that have lost it since.
        acknowledged: whether a producer has received that answer.
    """

    entry: Entry
    keepers: set[int]
    lost_by: set[int]
    acknowledged: bool = False


class Invariants:
    """The checks over all nodes and the controller.

    Parameters:
        controller: the model.
        nodes: by broker id.
        strict: whether records survive as long as one keeper does; without ELR and two replicas in sync, a failure of
            any keeper may cost them.

    Attributes:
        committed: all records below any high watermark, from offset 0 on.
        clean_since: the leader epoch of the last unclean election, before which leaders may have anything.
    """

    def __init__(self, controller: SimulatedController, nodes: dict[int, Node], *, strict: bool) -> None:
        self.controller = controller
        self.nodes = nodes
        self.strict = strict
        self.committed: list[Committed] = []
        self.entries: list[Entry] = []
        self.clean_since = 0
        self.acknowledged = 0
        self._values: dict[tuple[int, int], tuple[int, int]] = {}
        self._writers: dict[int, tuple[int, int]] = {}
        self._leaders: dict[tuple[int, int, int], int] = {}
        self._epochs: dict[tuple[int, int], tuple[int, int]] = {}
        self._partition_epochs = (0, 0)
        self._unclean = 0
        self._checked: list[int] = []

    # Events

    def appended(self, node: Node, offset: int, entry: Entry) -> None:
        """Check log matching (3) for a record that a leader or follower appends."""
        before = node.log.read(offset - 1, offset)
        previous = before[0].epoch if before else -1
        known = self._values.setdefault((offset, entry.epoch), (entry.value, previous))
        if known[0] != entry.value:
            raise Violation(f"3 log matching: {entry} at {offset} of node {node.node_id} is {known[0]} elsewhere")
        # Whether a follower's records before its leader's log start are right is not known until they are deleted.
        deleted = max(each.log.log_start_offset for each in self.nodes.values())
        if before and known[1] not in (previous, -1) and offset > deleted:
            raise Violation(
                f"3 log matching: epoch {previous} precedes {entry} at {offset} of node {node.node_id}, elsewhere "
                f"{known[1]}"
            )

    def led(self, node: Node) -> None:
        """Check that an epoch has one leader (6)."""
        epoch = node.partition.leader_epoch
        writer = self._writers.setdefault(epoch, (node.node_id, node.incarnation))
        if writer != (node.node_id, node.incarnation):
            raise Violation(f"6 epoch {epoch} is led by node {node.node_id}, and was by {writer}")

    def moved(self, node: Node, before: int) -> None:
        """Check a high watermark that has moved (7)."""
        partition = node.partition
        if not partition.is_leader:
            return
        if len(partition.isr.committed) < partition.min_isr:
            raise Violation(f"7 the high watermark of {node.node_id} moves from {before} with ISR {partition.isr}")
        for member in partition.isr.maximal - {node.node_id}:
            end = partition.followers[member].log_end_offset
            if end < node.log.high_watermark:
                raise Violation(
                    f"7 the high watermark {node.log.high_watermark} of {node.node_id} passes {member} at {end}"
                )

    def acknowledge(self, node: Node, offset: int, entry: Entry) -> None:
        """Note that a producer receives the answer that a record is replicated."""
        self.acknowledged += 1
        if node.log.read(offset, offset + 1) != [entry]:
            raise Violation(f"5 {entry} at {offset} is acknowledged, and not in the log of node {node.node_id}")
        if node.partition.leader_epoch < self.clean_since:
            return
        self._commit(node)
        if offset < len(self.committed) and self.committed[offset].entry == entry:
            self.committed[offset].acknowledged = True

    def lost(self, node: Node, end: int) -> None:
        """Note that a node has lost its records from an offset on."""
        for one in self.committed[end:]:
            one.keepers.discard(node.node_id)
            one.lost_by.add(node.node_id)

    # After every step

    def check(self) -> None:
        """Check everything, if anything has changed.

        Raises:
            Violation: something does not hold.
        """
        state = [self.controller.version]
        for node in self.nodes.values():
            state += (node.log.changes, node.version, node.alive, node.incarnation, node.lost, node.matched_epoch)
        if state == self._checked:
            return
        self._checked = state
        self._check_controller()
        self._forgive_unclean()
        for node in self.nodes.values():
            if node.alive and node.partition.role is not None:
                self._check_node(node)
        self._check_leader_has_all()
        self._check_strong_isr()
        self._check_elr()

    def _check_controller(self) -> None:
        state = self.controller.partition
        if state.leader != NO_LEADER and state.leader not in state.isr:
            raise Violation(f"2 LeaderInIsr: leader {state.leader}, ISR {state.isr}")
        if set(state.isr) & set(state.eligible_leader_replicas):
            raise Violation(f"8 ISR {state.isr} and ELR {state.eligible_leader_replicas} overlap")
        epochs = (state.leader_epoch, state.partition_epoch)
        if epochs[0] < self._partition_epochs[0] or epochs[1] < self._partition_epochs[1]:
            raise Violation(f"6 epochs go back from {self._partition_epochs} to {epochs}")
        self._partition_epochs = epochs

    def _forgive_unclean(self) -> None:
        """Forget what an unclean election gives up."""
        elections = self.controller.unclean_elections
        for epoch, leader in elections[self._unclean :]:
            self._begin_again(epoch, leader)
        self._unclean = len(elections)
        state = self.controller.partition
        if state.leader != NO_LEADER and self.nodes[state.leader].lost and not self.strict:
            # Without ELR the controller does not know that a member of the ISR has lost records.
            self._begin_again(state.leader_epoch, state.leader)
            elected = self.nodes[state.leader]
            # It may not have started, or registered, again before another one is elected.
            leads = elected.alive and elected.partition.is_leader
            elected.lost = not (leads and elected.partition.leader_epoch == state.leader_epoch)

    def _begin_again(self, epoch: int, leader: int) -> None:
        self.clean_since = max(epoch, self.clean_since)
        self._truncate(self._agreement(self.nodes[leader]))

    def _agreement(self, node: Node) -> int:
        """Return up to which offset a node has what is committed."""
        log = node.log
        for offset in range(log.log_start_offset, len(self.entries)):
            if log.read(offset, offset + 1) != [self.entries[offset]]:
                return offset
        return max(len(self.entries), log.log_start_offset)

    def _truncate(self, end: int) -> None:
        del self.committed[end:]
        del self.entries[end:]

    def _check_node(self, node: Node) -> None:
        partition, log = node.partition, node.log
        epochs = (partition.leader_epoch, partition.partition_epoch)
        key = (node.node_id, node.incarnation)
        if partition.role is not None:
            before = self._epochs.get(key, (-1, -1))
            if epochs < before and epochs != (-1, -1):
                raise Violation(f"6 the epochs of node {node.node_id} go back from {before} to {epochs}")
            self._epochs[key] = epochs
        entries = log.epochs.entries
        if any(a.epoch >= b.epoch or a.start_offset >= b.start_offset for a, b in itertools.pairwise(entries)):
            raise Violation(f"6 the epochs of {log} do not ascend")
        if not log.log_start_offset <= log.high_watermark <= log.log_end_offset:
            raise Violation(f"4 the high watermark is outside of {log}")
        if partition.is_leader:
            leadership = (node.node_id, node.incarnation, partition.leader_epoch)
            if log.high_watermark < self._leaders.get(leadership, 0):
                raise Violation(f"4 the high watermark of leader {node.node_id} goes back to {log.high_watermark}")
            self._leaders[leadership] = log.high_watermark
        if node.matched_epoch >= self.clean_since:
            self._commit(node)

    def _commit(self, node: Node) -> None:
        """Check what is below a high watermark against what was (4), and add what is new."""
        log = node.log
        end, start = log.high_watermark, log.log_start_offset
        known = min(end, len(self.entries))
        if log.read(start, known) != self.entries[start:known]:
            offset = next(at for at in range(start, known) if log.read(at, at + 1) != [self.entries[at]])
            if self._is_excused(offset):
                self._truncate(offset)
            else:
                raise Violation(
                    f"4 node {node.node_id} has {log.read(offset, offset + 1)} below its high watermark {end} at "
                    f"{offset}, where {self.committed[offset]} was"
                )
        if end > len(self.entries) >= start:
            state = self.controller.partition
            members = {*state.isr, *state.eligible_leader_replicas}
            for offset in range(len(self.entries), end):
                entry = log.read(offset, offset + 1)[0]
                has = {one for one in members if self.nodes[one].log.read(offset, offset + 1) == [entry]}
                self.committed.append(Committed(entry, has, members - has))
                self.entries.append(entry)

    def _is_excused(self, offset: int) -> bool:
        one = self.committed[offset]
        return not one.keepers if self.strict else bool(one.lost_by) or not one.keepers

    def _check_leader_has_all(self) -> None:
        """Check that the leader of the present epoch has all committed records (5)."""
        state = self.controller.partition
        node = self.nodes.get(state.leader)
        if node is None or not node.alive or not node.partition.is_leader:
            return
        if node.partition.leader_epoch != state.leader_epoch:
            return
        start, end = node.log.log_start_offset, len(self.entries)
        if node.log.read(start, end) != self.entries[start:]:
            offset = next(at for at in range(start, end) if node.log.read(at, at + 1) != [self.entries[at]])
            if not self._is_excused(offset):
                raise Violation(f"5 leader {node.node_id} has lost {self.committed[offset]} at {offset}: {node.log}")
            self._truncate(offset)

    def _check_strong_isr(self) -> None:
        isr = [self.nodes[member] for member in self.controller.partition.isr]
        for leader in self.nodes.values():
            partition = leader.partition
            if not leader.alive or not partition.is_leader or partition.leader_epoch < self.clean_since:
                continue
            end = leader.log.high_watermark
            for member in isr:
                if member.lost or member is leader:
                    continue
                start = max(leader.log.log_start_offset, member.log.log_start_offset)
                if member.log.read(start, end) != leader.log.read(start, end):
                    raise Violation(
                        f"1 StrongIsr: {member.node_id} of ISR {self.controller.partition.isr} differs from presumed "
                        f"leader {leader.node_id} of epoch {partition.leader_epoch} below {end}: {member.log}, "
                        f"{leader.log}"
                    )

    def _check_elr(self) -> None:
        if not self.strict:
            return
        for member in self.controller.partition.eligible_leader_replicas:
            node = self.nodes[member]
            start, end = node.log.log_start_offset, len(self.entries)
            if node.lost or node.log.read(start, end) == self.entries[start:]:
                continue
            offset = next(at for at in range(start, end) if node.log.read(at, at + 1) != [self.entries[at]])
            if not self._is_excused(offset):
                raise Violation(f"8 ELR member {member} lacks {self.committed[offset]} at {offset}: {node.log}")
