"""The rules of a leader, as functions: who joins the ISR, how far the high watermark moves, which epochs are valid.

Each function decides one thing from its arguments. The names of the models in which a rule is missing are those of the
TLA+ specification of Kafka's replication (hachikuji/kafka-specification); the simulation removes each rule once and
must notice.

Source: KIP-101, KIP-279, KIP-320, KIP-497, KIP-903, KIP-966; Kafka's Partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kclient.errors import FencedLeaderEpochError, UnknownLeaderEpochError
from refbroker.replication.followers import NO_BROKER_EPOCH, FollowerState
from refbroker.replication.isr import InSyncReplicas

NO_EPOCH = -1


class RegisteredBroker(Protocol):
    """A broker in the metadata, such as `BrokerRegistration`."""

    broker_epoch: int
    fenced: bool

    @property
    def is_active(self) -> bool:
        """Whether it is neither fenced nor shutting down."""


def effective_min_isr(min_isr: int, replicas: int) -> int:
    """Return `min.insync.replicas`, or the number of replicas if it is smaller."""
    return min(min_isr, replicas)


def isr_for_high_watermark(isr: InSyncReplicas) -> frozenset[int]:
    """Return the replicas that the high watermark waits for in any case.

    With the committed ISR instead, the high watermark could pass a replica whose addition the controller has committed
    already.
    """
    return isr.maximal


def high_watermark(current: int, log_end: int, follower_ends: Iterable[int], isr_size: int, min_isr: int) -> int:
    """Return the high watermark of a leader: the end of what all waited-for replicas have; it never decreases.

    Parameters:
        current: the present one.
        log_end: the leader's log end offset.
        follower_ends: the log end offsets of the followers to wait for.
        isr_size: of the committed ISR.
        min_isr: the effective `min.insync.replicas`, below which the high watermark does not move.
    """
    if isr_size < min_isr:
        return current
    return max(current, min([log_end, *follower_ends]))


def may_join_isr(follower_end: int, high_watermark: int, epoch_start: int) -> bool:
    """Return whether a follower has enough to be in sync.

    The high watermark of a new leader may be behind that of its predecessor. Everything before the start of the new
    leader's epoch may be committed, so a follower must have that too; without this rule (Kip320FirstTry) it could
    become the leader without committed records.

    Parameters:
        follower_end: the follower's log end offset.
        high_watermark: the leader's.
        epoch_start: the log end offset of the leader when its epoch began.
    """
    return follower_end >= high_watermark and follower_end >= epoch_start


def is_eligible(broker: RegisteredBroker | None, fetched_epoch: int | None) -> bool:
    """Return whether a broker may be in an ISR: it is registered and active, and its fetches are of this registration.

    Parameters:
        broker: its registration, None without one.
        fetched_epoch: the broker epoch of its last fetch, -1 for one that is not checked, None without a fetch.
    """
    if broker is None or not broker.is_active or fetched_epoch is None:
        return False
    return fetched_epoch in (NO_BROKER_EPOCH, broker.broker_epoch)


def with_broker_epochs(
    isr: Iterable[int], own: tuple[int, int], followers: Mapping[int, FollowerState]
) -> tuple[tuple[int, int], ...]:
    """Return the members of an ISR with the broker epochs with which they fetched.

    The controller refuses a member that has registered again since, and may have lost records (KIP-903). A member that
    has not fetched has -1: it can only be one of the committed ISR, which the controller itself keeps up to date.

    Parameters:
        isr: the broker ids.
        own: the leader's broker id and epoch.
        followers: what is known of the others.
    """
    members = []
    for broker_id in sorted(isr):
        epoch: int | None = own[1]
        if broker_id != own[0]:
            follower = followers.get(broker_id)
            epoch = None if follower is None else follower.broker_epoch
        members.append((broker_id, NO_BROKER_EPOCH if epoch is None else epoch))
    return tuple(members)


def check_leader_epoch(requested: int, current: int, topic: str, partition: int) -> None:
    """Check the leader epoch of a request; a follower of another epoch must not be served (without this: Kip279).

    Parameters:
        requested: the leader epoch of the client or follower, -1 for none.
        current: the leader epoch of the partition here.
        topic, partition: for the error.

    Raises:
        FencedLeaderEpochError: the requested epoch is older.
        UnknownLeaderEpochError: the requested epoch is newer.
    """
    if requested in (NO_EPOCH, current):
        return
    kind = FencedLeaderEpochError if requested < current else UnknownLeaderEpochError
    raise kind(
        f"the request has leader epoch {requested}, the partition {current}; refresh the metadata",
        topic=topic,
        partition=partition,
    )


def is_known(state: tuple[int, int], known: tuple[int, int]) -> bool:
    """Return whether metadata has a state that the leader knows from an answer of the controller.

    A proposal that was made since is still on its way then, and must not be forgotten as Kafka does.

    Parameters:
        state: leader epoch and partition epoch of the metadata.
        known: those that the leader knows.
    """
    return state == known


def has_led_on(known_epoch: int, leader_epoch: int) -> bool:
    """Return whether no other broker can have led since an epoch in which this one led.

    The metadata of several epochs may arrive together. A follower may have followed a leader of an epoch in between,
    or may do so later, and truncate what it has fetched from this one: its earlier fetches count no longer. Kafka goes
    by the role alone.

    Parameters:
        known_epoch: the leader epoch in which this broker led.
        leader_epoch: that in which it leads now.
    """
    return leader_epoch <= known_epoch + 1


def epoch_to_assign(leader_epoch: int) -> int | None:
    """Return the epoch that a new leader notes at its log end before any record, None for none.

    Without the note a follower that has records of an epoch between that of the leader's last record and the present
    one could not find out where its log diverges.
    """
    return leader_epoch
