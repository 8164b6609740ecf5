"""The offset ranges of a stream's micro-batches: what Spark's driver asks of a source, without PySpark.

Spark stores the end of each micro-batch in the query's checkpoint, in the form of `offsets.to_json`, which is that of
its own Kafka connector, and passes it back after a restart. It does not store the start of the first one, and asks for
it again if the query fails before the first one is done. A start that may change until then (such as `latest`) is
therefore returned unresolved, `{"startingOffsets": "latest"}`, and the first micro-batch is empty: its end is the
start, and is stored. So a query that runs now and then, and finds nothing at first, continues from where it began.

A partition that is not in the checkpoint is read from its earliest offset. These are data losses: a partition that no
longer exists, one that ends before the query's offset (of a topic that was created again, or truncated), and offsets
that retention removed, including the first ones of a partition that was added to a topic. If losses are permitted, the
remaining records are read, and a truncated partition continues at its new end. Records that a topic lost before it
matched are no loss. Neither is an offset beyond an open transaction, from when the query read uncommitted records: the
partition waits for the end of the transaction.

A topic that was created again is recognized by its id (`topic_ids`). Then the unread records of the old one are lost,
and the new one is read from its beginning. Ids are looked up when a query starts, when something is missing, and before
a micro-batch if they are older than DISCOVERY. Limitations: if a topic is deleted, created again and filled beyond the
query's offset between two look-ups, it is read from that offset until the next look-up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kclient.errors import KafkaError
from kclient.spark.admission import Patience, admit
from kclient.spark.clock import monotonic, sleep
from kclient.spark.consumers import borrow
from kclient.spark.errors import Lost
from kclient.spark.offsets import LATEST, Bound, Kind, Offsets, Range, from_json, report, resolve, to_json
from kclient.spark.planning import Task, plan
from kclient.spark.ranges import in_logs, partitions_in_several_listings, partitions_to_begin_with
from kclient.spark.topic_ids import Ids, ids_in, look_up, recreated, with_ids
from kclient.spark.watermark import DISCOVERY, Ends, Watermark

if TYPE_CHECKING:
    from kclient import Consumer
    from kclient.spark.options import ReadOptions
    from kclient.types import TopicPartition

_log = logging.getLogger(__name__)

UNRESOLVED = "startingOffsets"
"""The key of a start that is not resolved; its value is a string, unlike that of a topic."""

COMMIT_SECONDS = 5.0
"""How long a commit for Kafka's tools may delay the query, in seconds."""

StoredOffsets = dict[str, Any]
"""Offsets as Spark stores them."""


class MicroBatches:
    """The micro-batches of one query.

    Parameters:
        options: the options, from `ReadOptions.for_stream`.
        watermark: the end offsets of partitions; None creates one.
        lend: lends a consumer for other requests.
        ids: looks up the ids of topics.
        clock: seconds of a monotonic clock.
        pause: waits for a number of seconds.
    """

    def __init__(
        self,
        options: ReadOptions,
        watermark: Watermark | None = None,
        lend: Callable[[ReadOptions], AbstractContextManager[Consumer]] = borrow,
        ids: Callable[[ReadOptions, Iterable[str]], Mapping[str, str]] = look_up,
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], None] = sleep,
    ) -> None:
        assert options.starting is not None
        self._options = options
        self._starting: Bound = options.starting
        self._watermark = watermark or Watermark(Ends(options))
        self._lend = lend
        self._look_up = ids
        self._clock = clock
        self._pause = pause
        self._patience = Patience(options.max_trigger_delay_ms)
        self._target: Offsets | None = None
        self._begins: Offsets = {}
        """The first offsets of partitions that no micro-batch has reached yet."""
        self._held_back: dict[TopicPartition, tuple[int, int]] = {}
        """Offsets beyond the watermark that exist in the log nevertheless, with the watermark at that time."""
        self._committed: StoredOffsets | None = None
        self._ids: Ids = {}
        """The ids of topics; empty for brokers without ids."""
        self._ids_read_at = self._clock()
        """When the ids were read."""

    def initial(self) -> StoredOffsets:
        """Return the start of a query without a checkpoint.

        Raises:
            OptionError: the start does not match the existing partitions.
            KafkaError: a topic does not exist, or the request failed.
        """
        if _may_change(self._starting):
            return {UNRESOLVED: self._starting.kind.value}
        return self._stored(self._start())

    def end_at_latest(self) -> None:
        """Let the query end at the current end offsets.

        Raises:
            KafkaError: the request failed.
        """
        self._target = {**self._watermark.latest()}

    def latest(self, start: StoredOffsets, most: int | None = None, least: int | None = None) -> StoredOffsets:
        """Return the end of the next micro-batch; its start if there are no records for one.

        Parameters:
            start: the start of the micro-batch.
            most: the most offsets in it; None for no limit.
            least: the fewest offsets, for which it waits up to `max_trigger_delay_ms`; None for any.

        Raises:
            DataLossError: records are lost, and that is an error.
            KafkaError: a topic does not exist, or the request failed.
        """
        if _is_unresolved(start):
            return self._stored(self._resolved_start())
        # A request for the next micro-batch means that the previous one was processed. Spark commits a micro-batch only
        # when there is another one, so a quiet topic would seem to have a lag.
        self._commit_for_tools(start)
        begun = from_json(start)
        ends = self._ends(begun)
        begun, lost = self._same_topics(start, begun, ends)
        begins, lost_by_new = self._begins_of_new(begun, ends)
        lost += lost_by_new
        lost += [Lost(gone, begun[gone], None, None, None) for gone in sorted(begun.keys() - ends.keys())]
        cut, lost_by_it = self._cut_off(begun, ends)
        lost += lost_by_it
        report(lost, fail_on_data_loss=self._options.fail_on_data_loss)
        begins.update({**begun, **cut})
        ranges = [Range(partition, begins[partition], end) for partition, end in sorted(ends.items())]
        there = sum(one.size for one in ranges)
        if not there and not lost and begun.keys() == ends.keys():
            return start
        if self._target is None and not lost and self._patience.waits(there, least, self._clock()):
            return start
        return self._stored(admit(ranges, most))

    def reported(self) -> StoredOffsets | None:
        """Return the end offsets for the query's progress, None before the first request."""
        known = self._watermark.known()
        return None if known is None else with_ids(to_json(known), self._ids)

    def tasks(self, start: StoredOffsets, end: StoredOffsets) -> list[Task]:
        """Return the tasks of a micro-batch.

        Raises:
            DataLossError: records are lost, and that is an error.
            KafkaError: the request failed.
        """
        if start == end or _is_unresolved(start) or not end:
            return []
        begun, wanted = from_json(start), from_json(end)
        new_at_end = recreated(ids_in(start), ids_in(end))
        begun = {tp: offset for tp, offset in begun.items() if tp.topic not in new_at_end}
        last = self._watermark.recent()
        last = {**last, **self._ends_of_missing(wanted.keys() - last.keys())}
        new_since = recreated(ids_in(end), self._ids_of({tp.topic for tp in wanted.keys() & last.keys()}))
        there = [partition for partition in wanted if partition in last and partition.topic not in new_since]
        first = self._first(there)
        report(
            [
                Lost(partition, begun.get(partition, 0), offset, None, None, partition.topic in new_since)
                for partition, offset in wanted.items()
                if partition not in first and begun.get(partition, 0) < offset
            ],
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        ranges = [Range(tp, begun.get(tp, first[tp]), wanted[tp]) for tp in sorted(there)]
        ranges = in_logs(self._options, ranges, first, last, self._lend)
        return plan(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    def commit(self, end: StoredOffsets) -> None:
        """Note that everything before `end` is processed."""
        self._commit_for_tools(end)

    def stop(self) -> None:
        """Stop the background thread."""
        self._watermark.stop()

    def _commit_for_tools(self, offsets: StoredOffsets) -> None:
        """Commit the progress for Kafka's tools, if the option is set; errors do not affect the query."""
        group = self._options.commit_offsets_to_group
        if group is None or offsets == self._committed:
            return
        self._committed = offsets
        by_partition = {(tp.topic, tp.partition): offset for tp, offset in from_json(offsets).items()}
        try:
            with self._lend(self._options) as consumer:
                consumer.commit(by_partition, timeout=COMMIT_SECONDS)
        except KafkaError as error:
            _log.warning("the position of the query was not committed to group %s: %s", group, error)

    def _start(self) -> Offsets:
        with self._lend(self._options) as consumer:
            return resolve(consumer, self._starting, partitions_to_begin_with(consumer, self._options))

    def _resolved_start(self) -> Offsets:
        found = self._start()
        if self._target is None:
            return found
        # Records have arrived since; they are for the next run.
        return {tp: min(offset, self._target[tp]) for tp, offset in found.items() if tp in self._target}

    def _ends(self, begun: Offsets) -> Offsets:
        """Return the current end offsets, or those at which the query is to end."""
        if self._target is not None:
            self._target.update(self._ends_of_missing(begun.keys() - self._target.keys()))
            return self._target
        ends = self._watermark.latest()
        return {**ends, **self._ends_of_missing(begun.keys() - ends.keys())}

    def _ends_of_missing(self, missing: Set[TopicPartition]) -> Offsets:
        """Return the end offsets of partitions that a broker did not know; without those that no longer exist."""
        if not missing:
            return {}
        with self._lend(self._options) as consumer:
            there = partitions_in_several_listings(consumer, self._options, missing, missing_ok=True, pause=self._pause)
            return consumer.end_offsets([partition for partition in there if partition in missing])

    def _stored(self, offsets: Offsets) -> StoredOffsets:
        """Return offsets as Spark stores them, with the ids of their topics."""
        return with_ids(to_json(offsets), self._ids_of({partition.topic for partition in offsets}))

    def _ids_of(self, topics: Set[str]) -> Ids:
        unknown = topics - self._ids.keys()
        if unknown:
            self._ids.update(self._look_up(self._options, sorted(unknown)))
        return self._ids

    def _same_topics(self, start: StoredOffsets, begun: Offsets, ends: Offsets) -> tuple[Offsets, list[Lost]]:
        """Return the offsets in topics that are still the same, and the losses in the others.

        The entries of the others in `ends` are replaced by their current ends.
        """
        # Without anything to read, ids are not needed: an idle query sends no request.
        if begun != ends and self._clock() - self._ids_read_at >= DISCOVERY:
            self._ids, self._ids_read_at = {}, self._clock()
        changed = (ends.keys() - begun.keys() - self._begins.keys()) | (begun.keys() - ends.keys())
        for partition in changed.union(self._shorter(begun, ends)):
            self._ids.pop(partition.topic, None)
        before = ids_in(start)
        found = self._ids_of({partition.topic for partition in ends})
        # A topic that is only missing keeps its id, so that a later check does not store the id of another topic with
        # its offsets.
        self._ids = {**{topic: before[topic] for topic in before.keys() - found.keys()}, **found}
        replaced = recreated(before, self._ids)
        self._cut_to_new({tp for tp in ends if tp.topic in replaced}, ends)
        lost = [
            Lost(tp, at, None, None, None, is_recreated=True)
            for tp, at in sorted(begun.items())
            if tp.topic in replaced
        ]
        return {tp: offset for tp, offset in begun.items() if tp.topic not in replaced}, lost

    def _cut_to_new(self, partitions: Set[TopicPartition], ends: Offsets) -> None:
        now = self._ends_of_missing(partitions)
        for partition in partitions:
            if partition in now:
                ends[partition] = min(ends[partition], now[partition])
            else:
                del ends[partition]

    def _begins_of_new(self, begun: Offsets, ends: Offsets) -> tuple[Offsets, list[Lost]]:
        """Return the first offsets of partitions that are not in the checkpoint, and what they lost before they were
        read.
        """
        new = ends.keys() - begun.keys()
        self._begins = {partition: offset for partition, offset in self._begins.items() if partition in new}
        unknown = sorted(new - self._begins.keys())
        self._begins.update(self._first(unknown))
        topics = {partition.topic for partition in begun}
        lost = [
            Lost(partition, 0, self._begins[partition], self._begins[partition], ends[partition])
            for partition in sorted(new)
            if partition.topic in topics and self._begins[partition] > 0
        ]
        return {**self._begins}, lost

    def _cut_off(self, begun: Offsets, ends: Offsets) -> tuple[Offsets, list[Lost]]:
        """Return the ends of partitions that end before their offset, and what they lost."""
        shorter = self._shorter(begun, ends)
        if not shorter:
            return {}, []
        # The watermark may be older than an offset from another look-up. With read_committed, a partition ends at the
        # first open transaction, and an offset from before the option was set may be beyond it.
        with self._lend(self._options.for_whole_logs()) as consumer:
            first, last = consumer.beginning_offsets(shorter), consumer.end_offsets(shorter)
        cut = [partition for partition in shorter if last[partition] < begun[partition]]
        self._held_back.update({tp: (begun[tp], ends[tp]) for tp in shorter if tp not in cut})
        lost = [Lost(tp, last[tp], begun[tp], first[tp], last[tp]) for tp in cut]
        return {tp: min(ends[tp], last[tp]) for tp in cut}, lost

    def _shorter(self, begun: Offsets, ends: Offsets) -> list[TopicPartition]:
        """Return partitions that end before their offset for an unknown reason."""
        return sorted(
            partition
            for partition, offset in begun.items()
            if offset > ends.get(partition, offset) and self._held_back.get(partition) != (offset, ends[partition])
        )

    def _first(self, chosen: Iterable[TopicPartition]) -> Offsets:
        asked = list(chosen)
        if not asked:
            return {}
        with self._lend(self._options) as consumer:
            return consumer.beginning_offsets(asked)


def _may_change(bound: Bound) -> bool:
    """Return whether the bound may resolve to other offsets later, apart from lost records."""
    return bound.kind in (Kind.LATEST, Kind.COMMITTED) or bound.latest_if_none or LATEST in bound.special()


def _is_unresolved(stored: StoredOffsets) -> bool:
    return isinstance(stored.get(UNRESOLVED), str)
