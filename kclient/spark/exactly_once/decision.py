"""The decision: which batch of a query is valid, and its transactions. It is a committed offset of a group.

The offset is the number of the batch, for partition 0 of the decision topic. Its metadata is JSON: `transactions` has
an entry for each task that wrote rows (partition, lane, producer id and epoch in hexadecimal, `a.0.4e2f1.3`), and
`rows` their total, which detects a batch that is repeated with other rows. A broker accepts 4096 bytes of metadata per
partition (`offset.metadata.max.bytes`), enough for more than 200 tasks. Longer metadata continues in partitions 1, 2
and so on, with the same offset. All of them are one request, one record batch and one marker in one partition of
`__consumer_offsets`, so readers see them change together.

Brokers delete the offsets of a group without members after `offsets.retention.minutes` (seven days), those of a deleted
topic, and any on request. With another prefix, the group has another name. Only a query that died between its decision
and Spark's own commit of the batch needs the decision; without it, it writes this batch again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kclient import Admin
from kclient.errors import AdminError, KafkaTimeoutError, UnstableOffsetCommitError
from kclient.spark.clock import monotonic
from kclient.spark.exactly_once.errors import ExactlyOnceError, OldCheckpointError, SupersededError
from kclient.spark.exactly_once.settings import Settings
from kclient.types import OffsetAndMetadata, PreparedTransaction, TopicPartition

MOST_METADATA = 4096
"""The bytes per partition that a broker accepts by default."""

MOST_PAST = 8
"""How many earlier runs a decision contains."""

PATIENCE = 2.0
"""The seconds that a decision may take to become stable: milliseconds, unless its driver died in between."""

_VERSION = 1


class Entry(msgspec.Struct, frozen=True, order=True):
    """The transaction of one task."""

    partition: int
    lane: int
    producer_id: int
    epoch: int

    def prepared(self, settings: Settings, batch: int) -> PreparedTransaction:
        """Return what completes the transaction."""
        return PreparedTransaction(settings.task_id(batch, self.partition, self.lane), self.producer_id, self.epoch)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A batch that is decided.

    Attributes:
        batch: the number of the batch.
        run: the run of the query that decided it.
        past: the earlier runs, the latest last.
        tasks: the number of tasks, including those without rows.
        rows: the number of rows of all tasks.
        entries: the transactions, by partition.
    """

    batch: int
    run: str
    past: tuple[str, ...] = ()
    tasks: int
    rows: int
    entries: tuple[Entry, ...]

    def entry(self, partition: int) -> Entry | None:
        """Return the transaction of a task, None if it wrote nothing."""
        return next((entry for entry in self.entries if entry.partition == partition), None)

    def check_run(self, run: str, batch: int) -> None:
        """Check that this run may write a batch after this decision.

        Raises:
            SupersededError: a later run of the query has taken over.
            OldCheckpointError: the batch is before the decided one.
        """
        if run in self.past or (run == self.run and batch < self.batch):
            raise SupersededError(
                f"batch {batch} is not written: another run of the query has written up to batch {self.batch}. "
                "Only one running query may use a checkpoint or its copy"
            )
        if batch < self.batch:
            raise OldCheckpointError(
                f"batch {batch} is not written: the query has already written up to batch {self.batch}. The checkpoint "
                "is a copy or was restored; use a new checkpointLocation, with which the query starts under another id"
            )


class _Head(msgspec.Struct, omit_defaults=True):
    version: int
    run: str
    tasks: int
    rows: int
    parts: int = 1
    past: tuple[str, ...] = ()
    transactions: str = ""


def encode(decision: Decision) -> list[str]:
    """Return the metadata of partitions 0, 1, 2, …"""
    texts = [f"{one.partition:x}.{one.lane:x}.{one.producer_id:x}.{one.epoch:x}" for one in decision.entries]
    head = _Head(_VERSION, decision.run, decision.tasks, decision.rows, len(texts) + 1, decision.past)
    room = MOST_METADATA - len(msgspec.json.encode(head)) - len(',"transactions":""')
    parts = [""]
    for text in texts:
        longer = f"{parts[-1]} {text}" if parts[-1] else text
        if len(longer) <= (room if len(parts) == 1 else MOST_METADATA):
            parts[-1] = longer
        else:
            parts.append(text)
    head.parts, head.transactions = len(parts), parts[0]
    return [msgspec.json.encode(head).decode(), *parts[1:]]


def decode(batch: int, parts: list[str]) -> Decision:
    """Parse the metadata from `encode`; raise ValueError for other texts."""
    head = msgspec.json.decode(parts[0], type=_Head)
    if head.version != _VERSION or head.parts != len(parts):
        raise ValueError(f"version {head.version} in {len(parts)} parts")
    entries = []
    for text in " ".join((head.transactions, *parts[1:])).split():
        partition, lane, producer_id, epoch = (int(number, 16) for number in text.split("."))
        entries.append(Entry(partition, lane, producer_id, epoch))
    return Decision(batch=batch, run=head.run, past=head.past, tasks=head.tasks, rows=head.rows, entries=tuple(entries))


def offsets(decision: Decision, topic: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets to commit for a decision."""
    return {
        TopicPartition(topic, number): OffsetAndMetadata(decision.batch, text)
        for number, text in enumerate(encode(decision))
    }


def following(
    last: Decision | None, batch: int, run: str, *, tasks: int, rows: int, entries: Iterable[Entry]
) -> Decision:
    """Return the decision for a batch after the last one."""
    past = () if last is None else last.past if last.run == run else (*last.past, last.run)[-MOST_PAST:]
    return Decision(batch=batch, run=run, past=past, tasks=tasks, rows=rows, entries=tuple(sorted(entries)))


def read_decision(admin: Admin, settings: Settings) -> Decision | None:
    """Return the last decision, once it is stable, or None.

    If a driver dies between writing its decision and ending that transaction, the decision is unstable until the
    timeout. Fencing the driver here ends the transaction. If the driver is alive, it takes its id again and repeats.

    Raises:
        ExactlyOnceError: the committed offset of the group is not a decision.
        KafkaTimeoutError: the brokers do not respond.
    """
    block_ms = settings.block_ms
    longest, began = block_ms / 1000, monotonic()
    try:
        committed = _committed(admin, settings, began + min(PATIENCE, longest / 2))
    except (UnstableOffsetCommitError, KafkaTimeoutError):
        try:
            admin.fence_producers(settings.driver_id, timeout=_left(began + longest))
            committed = _committed(admin, settings, began + longest)
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(
                f"the query's last decision was not read within max_block_ms ({block_ms}): {error.message}"
            ) from None
    # The decision topic may have changed since.
    heads = [(found.offset, tp) for tp, found in committed.items() if found is not None and tp.partition == 0]
    if not heads:
        return None
    batch, first = max(heads)
    try:
        return decode(batch, _parts(committed, first, batch))
    except (ValueError, msgspec.DecodeError) as error:
        raise ExactlyOnceError(
            f"the committed offset of group {settings.group!r} for {first} is not from an exactly-once write "
            f"({error}): something else uses the group's name"
        ) from None


def _left(ends: float) -> float:
    return max(0.0, ends - monotonic())


def _committed(admin: Admin, settings: Settings, ends: float) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """Return all committed offsets of the group, once they are stable.

    A request for all offsets omits partitions whose first offset is still pending. So the first decision is requested
    by partition, which waits until it is stable, or until `clock.monotonic` reaches the end.
    """
    first = TopicPartition(settings.decision_topic, 0)
    found = _stable_offsets(admin, settings.group, None, ends)
    if first not in found and _stable_offsets(admin, settings.group, [first], ends)[first] is not None:
        found = _stable_offsets(admin, settings.group, None, ends)
    return found


def _stable_offsets(
    admin: Admin, group: str, partitions: list[TopicPartition] | None, ends: float
) -> dict[TopicPartition, OffsetAndMetadata | None]:
    try:
        return admin.list_group_offsets({group: partitions}, require_stable=True, timeout=_left(ends))[group]
    except AdminError as failed:
        (error,) = failed.errors.values()
        raise error from None


def _parts(committed: dict[TopicPartition, OffsetAndMetadata | None], first: TopicPartition, batch: int) -> list[str]:
    head = committed[first]
    assert head is not None
    count = msgspec.json.decode(head.metadata, type=_Head).parts
    parts = [head.metadata]
    for number in range(1, count):
        found = committed.get(TopicPartition(first.topic, number))
        if found is None or found.offset != batch:
            raise ValueError(f"part {number} of {count} is missing")
        parts.append(found.metadata)
    return parts
