"""Where two logs diverge, and what a follower does about it.

Logs are compared by their leader epochs: two logs that both have the end of an epoch have the same records before it.
A follower fetches at its log end, and sends the epoch of its last record. The leader answers with its largest epoch up
to that one, and with the offset at which that epoch ends. If the follower has another epoch there, or more records, it
truncates and fetches again:

    the leader's epoch is      the follower truncates to
    known here                 min(its end at the leader, its end here, log end): the logs are equal up to there
    not known here             the end of our next smaller epoch; the next fetch compares that one
    undefined                  the high watermark

One round is enough per epoch that the follower has and the leader lacks. Messages before KIP-279 lacked the leader's
epoch, so that a follower truncated once, to the offset, and could keep records of epochs that the leader never had.

Source: KIP-101, KIP-279, KIP-595; getOffsetTruncationState and fetchOffsetAndTruncate of Kafka's
AbstractFetcherThread, readRecords of Partition, KAFKA-18723.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from kclient.errors import OffsetOutOfRangeError
from kclient.records import BatchHeader
from refbroker.log.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEntry

# The leader


def diverging_epoch(
    found: EpochEntry, last_fetched_epoch: int, fetch_offset: int, log_start_offset: int
) -> EpochEntry | None:
    """Return the `diverging_epoch` of a fetch response; None if the log of the follower is a prefix of the leader's.

    Parameters:
        found: the leader's largest epoch up to `last_fetched_epoch`, and its end offset; (-1, -1) if unknown.
        last_fetched_epoch: the epoch of the follower's last record.
        fetch_offset: the offset of the fetch, which is the follower's log end.
        log_start_offset: the leader's.

    Raises:
        OffsetOutOfRangeError: the leader knows no such epoch, or starts behind the follower's end.
    """
    if UNDEFINED_OFFSET in (found.epoch, found.start_offset):
        raise OffsetOutOfRangeError(
            f"Could not determine the end offset of the last fetched epoch {last_fetched_epoch} from the request",
            offset=fetch_offset,
        )
    if fetch_offset < log_start_offset:
        raise OffsetOutOfRangeError(
            f"Received request for offset {fetch_offset}, but the log starts at {log_start_offset}", offset=fetch_offset
        )
    if found.epoch < last_fetched_epoch or found.start_offset < fetch_offset:
        return found
    return None


# The follower


class FollowingStart(NamedTuple):
    """How a follower begins to fetch in a leader epoch.

    Attributes:
        truncate_to: an offset to truncate to before, None for none.
        fetch_offset: the first offset to fetch.
        last_fetched_epoch: the epoch of the last record before it, -1 if unknown.
    """

    truncate_to: int | None
    fetch_offset: int
    last_fetched_epoch: int


def following_start(log_end: int, high_watermark: int, latest_epoch: int) -> FollowingStart:
    """Return how a follower begins to fetch: at its log end, with its last epoch, for the leader to compare.

    Without an epoch nothing can be compared, and only what is below the high watermark is known to be the leader's.
    """
    if latest_epoch == UNDEFINED_EPOCH:
        truncate_to = high_watermark if high_watermark < log_end else None
        return FollowingStart(truncate_to, min(high_watermark, log_end), UNDEFINED_EPOCH)
    return FollowingStart(None, log_end, latest_epoch)


class Truncation(NamedTuple):
    """The truncation of a follower.

    Attributes:
        offset: the log end offset afterwards.
        is_complete: whether the logs are equal up to there; otherwise the next fetch compares an earlier epoch.
    """

    offset: int
    is_complete: bool


def truncation(leader: EpochEntry, own: EpochEntry, log_end: int, high_watermark: int) -> Truncation:
    """Return the truncation that follows from the leader's answer.

    Parameters:
        leader: the leader's epoch and its end offset there, from a diverging epoch or OffsetForLeaderEpoch.
        own: the largest epoch here up to the leader's, and its end offset here; (-1, -1) if unknown.
        log_end: the own log end offset.
        high_watermark: the own one.
    """
    if leader.start_offset == UNDEFINED_OFFSET:
        return Truncation(min(high_watermark, log_end), True)
    if UNDEFINED_EPOCH in (leader.epoch, own.epoch):
        return Truncation(min(leader.start_offset, log_end), True)
    if own.epoch != leader.epoch:
        return Truncation(min(own.start_offset, log_end), False)
    return Truncation(min(leader.start_offset, own.start_offset, log_end), True)


class Reset(NamedTuple):
    """What a follower does whose fetch offset is out of range.

    Attributes:
        truncate_to: an offset to truncate to, None for none.
        start_at: the offset at which the emptied log starts, None if the log stays.
        fetch_offset: the next offset to fetch.
    """

    truncate_to: int | None
    start_at: int | None
    fetch_offset: int


def reset(log_end: int, leader_start: int, leader_end: int) -> Reset:
    """Return what a follower does whose fetch was OFFSET_OUT_OF_RANGE.

    Parameters:
        log_end: the own log end offset.
        leader_start, leader_end: the leader's log start and log end offset.
    """
    if leader_end < log_end:
        # An unclean leader with fewer records.
        return Reset(leader_end, None, leader_end)
    if leader_start > log_end:
        return Reset(None, leader_start, leader_start)
    return Reset(None, None, log_end)


class BatchOfEpoch(Protocol):
    """A record batch, such as a `BatchHeader`, of which only the epoch matters."""

    @property
    def partition_leader_epoch(self) -> int:
        """The epoch of the leader that appended it."""


def batches_to_append(batches: Sequence[BatchOfEpoch], leader_epoch: int) -> int:
    """Return how many of the fetched batches belong to the log: those before the first one of a later leader epoch.

    A leader that has lost its leadership may have truncated, and appended records of its successor, between reading
    the position of a response and sending the bytes (KAFKA-18723).

    Parameters:
        batches: as fetched.
        leader_epoch: in which they were fetched.
    """
    for number, batch in enumerate(batches):
        if batch.partition_leader_epoch > leader_epoch:
            return number
    return len(batches)


def offset_before_start(log_start: int, log_end: int, first: BatchHeader) -> int | None:
    """Return where an empty log must start to take a batch that begins before its start, None if it can take it.

    The leader's log start may be in the middle of a batch, and a fetch returns whole batches.

    Parameters:
        log_start, log_end: the own log start and log end offset.
        first: the first batch fetched.
    """
    if log_start == log_end and first.base_offset < log_end <= first.last_offset:
        return first.base_offset
    return None


def follower_high_watermark(leader_high_watermark: int, log_end: int) -> int:
    """Return the high watermark of a follower."""
    return min(leader_high_watermark, log_end)


def follower_log_start(leader_log_start: int, own_log_start: int, high_watermark: int) -> int:
    """Return the log start offset of a follower, which follows that of the leader up to the high watermark."""
    return max(own_log_start, min(leader_log_start, high_watermark))


# Two logs


def largest_common_offset(
    first: Iterable[EpochEntry], first_end: int, second: Iterable[EpochEntry], second_end: int
) -> int:
    """Return the end of what two logs have in common, judged by their epochs.

    Parameters:
        first, second: the epochs of each log, ascending.
        first_end, second_end: their log end offsets.
    """
    ends = [_ends(first, first_end), _ends(second, second_end)]
    return max(
        (
            min(ends[0][epoch][1], ends[1][epoch][1])
            for epoch in ends[0].keys() & ends[1].keys()
            if min(ends[0][epoch][1], ends[1][epoch][1]) > max(ends[0][epoch][0], ends[1][epoch][0])
        ),
        default=0,
    )


def _ends(entries: Iterable[EpochEntry], end: int) -> dict[int, tuple[int, int]]:
    """Return the first offset and the end offset of each epoch."""
    listed = list(entries)
    following = [entry.start_offset for entry in listed[1:]] + [end]
    return {entry.epoch: (entry.start_offset, after) for entry, after in zip(listed, following, strict=False)}
