"""A partition with a log that is only figures, and brokers that a test changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from refbroker.log.leader_epochs import EpochEntry
from refbroker.metadata.image import PartitionState
from refbroker.replication.isr import IsrAnswer, IsrProposal
from refbroker.replication.partition import Partition, ReplicaConfig, Role

LAG_MS = 30_000


@dataclass
class FigureLog:
    """The figures of a log."""

    log_start_offset: int = 0
    log_end_offset: int = 0
    high_watermark: int = 0
    leader_epoch: int = -1
    ends: dict[int, EpochEntry] = field(default_factory=dict)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEntry:
        return self.ends.get(leader_epoch, EpochEntry(-1, -1))


@dataclass
class Broker:
    """A registration."""

    broker_epoch: int = 5
    fenced: bool = False
    shutting_down: bool = False

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.shutting_down


def state(**changes: Any) -> PartitionState:
    """Return the metadata of a partition on brokers 1, 2, 3, led by broker 1."""
    found = PartitionState(0, [1, 2, 3], [1, 2, 3], 1, 0, 0, [], [], [])
    for name, value in changes.items():
        setattr(found, name, value)
    return found


class Replica:
    """Broker 1's replica of a partition, with the high watermark that its decisions lead to."""

    def __init__(self, *, min_isr: int = 2, end: int = 0) -> None:
        self.log = FigureLog(log_end_offset=end)
        self.brokers = {number: Broker() for number in (1, 2, 3)}
        self.partition = Partition("orders", 0, 1, self.log, self.brokers, ReplicaConfig(LAG_MS, min_isr))
        self.partition.broker_epoch = 5
        self.now_ms = 100_000

    @property
    def role(self) -> Role | None:
        return self.partition.role

    def lead(self, **changes: Any) -> None:
        led = self.partition.lead(state(**changes), self.now_ms)
        if led is not None:
            self.log.high_watermark = led.high_watermark

    def append(self, count: int = 1) -> None:
        self.log.log_end_offset += count
        self.log.high_watermark = self.partition.high_watermark(self.now_ms)

    def fetch(self, replica_id: int, offset: int, *, broker_epoch: int = 5) -> IsrProposal | None:
        progress = self.partition.record_fetch(
            replica_id, offset, 0, self.log.log_end_offset, broker_epoch, self.now_ms
        )
        self.log.high_watermark = progress.high_watermark
        return progress.proposal

    def answer(self, proposal: IsrProposal, error_code: int = 0, isr: tuple[int, ...] = ()) -> IsrProposal | None:
        """Let the controller accept a proposal, or refuse it with an error."""
        accepted = IsrAnswer(
            0, isr or tuple(sorted(proposal.members)), proposal.leader_epoch, proposal.partition_epoch + 1
        )
        answer = IsrAnswer(error_code) if error_code else accepted
        progress = self.partition.answered(proposal, answer, self.now_ms)
        self.log.high_watermark = progress.high_watermark
        return progress.proposal
