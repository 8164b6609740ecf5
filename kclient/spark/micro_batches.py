"""From where to where the micro-batches of a stream go; what Spark's driver asks of a source, without PySpark.

Spark keeps where each micro-batch ends in the query's checkpoint, in the form of `offsets.to_json`, which is that of
its own Kafka connector, and comes back with it after a restart. It does not keep where the first one starts: it asks
again for that, if the query fails before the first one is done. A start that may be another one by then (`latest`, for
one) is therefore given as a promise, `{"startingOffsets": "latest"}`, and the first micro-batch is empty: its end is
the start, and is in the checkpoint. So also a query that now and then runs once, and finds nothing at first, goes on
from where it began.

A partition that is not in the checkpoint is read from its earliest offset. What is missing is a loss: a partition that
is gone, one that ends before the place where the query is (a topic that was created anew, or truncated), offsets that
retention took, also the first ones of a partition that was added to a topic. Where that is no error, what is left is
read, and a partition that was cut off goes on at its new end. What a topic had before it matched, and lost, is no loss.
Nor is a place beyond an open transaction, from when the query read uncommitted: the partition waits for its end.
That a topic is another one than before, under the same name, is known by its id (`topic_ids`): then all that was to
come of it is lost, and what is there is read from its beginning. Ids are looked up when a query starts, when something
is missing, and before a micro-batch if they are older than DISCOVERY. A topic that is deleted, created anew and longer
than the query's place within that time, between two looks, may so be read from that place for one micro-batch or more,
until the next look.
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
from kclient.spark.ranges import in_logs, partitions_after_all, partitions_to_begin_with
from kclient.spark.topic_ids import Ids, created_anew, ids_in, look_up, with_ids
from kclient.spark.watermark import DISCOVERY, Ends, Watermark

if TYPE_CHECKING:
    from kclient import Consumer
    from kclient.spark.options import ReadOptions
    from kclient.types import TopicPartition

_log = logging.getLogger(__name__)

PROMISE = "startingOffsets"
"""Its value is a string, as that of no topic is."""

COMMIT_SECONDS = 5.0
"""How long a commit for Kafka's tools may hold up the query."""

Written = dict[str, Any]
"""Offsets as Spark keeps them."""


class MicroBatches:
    """The micro-batches of one query.

    Parameters:
        options: as `ReadOptions.for_stream` has them.
        watermark: where partitions end; None makes one.
        lend: lends a consumer for whatever else is to be asked.
        ids: looks up the ids of topics.
        clock: seconds that grow.
        pause: waits for so many of them.
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
        """Where partitions begin that no micro-batch has reached yet."""
        self._held_back: dict[TopicPartition, tuple[int, int]] = {}
        """Places beyond the end that the watermark had, which the log has nevertheless; both by partition."""
        self._shown: Written | None = None
        self._ids: Ids = {}
        """Those of topics that were asked for; empty where the broker has none."""
        self._asked_at = self._clock()
        """Since when ids are kept."""

    def initial(self) -> Written:
        """Where a query starts that has no checkpoint.

        Raises:
            OptionError: the start does not fit the partitions that there are.
            KafkaError: a topic does not exist, or the brokers cannot tell.
        """
        if _may_change(self._starting):
            return {PROMISE: self._starting.kind.value}
        return self._written(self._start())

    def hold(self) -> None:
        """Let the query end at what is there now.

        Raises:
            KafkaError: the brokers cannot tell.
        """
        self._target = {**self._watermark.latest()}

    def latest(self, start: Written, most: int | None = None, least: int | None = None) -> Written:
        """Where the next micro-batch ends; where it starts, if there is nothing for one.

        Parameters:
            start: where it starts.
            most: how many offsets it may have; None for no limit.
            least: how many are worth waiting for, as long as `max_trigger_delay_ms` allows; None for any.

        Raises:
            DataLossError: something is gone, and that is an error.
            KafkaError: a topic does not exist, or the brokers cannot tell.
        """
        if _is_promise(start):
            return self._written(self._kept_promise())
        # Who asks for what comes after it has processed what comes before. Spark commits a micro-batch only when there
        # is another one, so that a quiet topic would seem to have a lag.
        self._show(start)
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
        return self._written(admit(ranges, most))

    def reported(self) -> Written | None:
        """How far the partitions go, for the query's progress; None before anybody asked."""
        known = self._watermark.known()
        return None if known is None else with_ids(to_json(known), self._ids)

    def tasks(self, start: Written, end: Written) -> list[Task]:
        """What the tasks of a micro-batch read.

        Raises:
            DataLossError: something is gone, and that is an error.
            KafkaError: the brokers cannot tell.
        """
        if start == end or _is_promise(start) or not end:
            return []
        begun, wanted = from_json(start), from_json(end)
        new_at_end = created_anew(ids_in(start), ids_in(end))
        begun = {tp: place for tp, place in begun.items() if tp.topic not in new_at_end}
        last = self._watermark.recent()
        last = {**last, **self._ends_of_missing(wanted.keys() - last.keys())}
        new_since = created_anew(ids_in(end), self._ids_of({tp.topic for tp in wanted.keys() & last.keys()}))
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

    def commit(self, end: Written) -> None:
        """Everything before `end` is processed."""
        self._show(end)

    def stop(self) -> None:
        """End what runs in the background."""
        self._watermark.stop()

    def _show(self, place: Written) -> None:
        """Let Kafka's tools see how far the query is, if that is wanted; the query does not depend on it."""
        group = self._options.commit_offsets_to_group
        if group is None or place == self._shown:
            return
        self._shown = place
        places = {(partition.topic, partition.partition): offset for partition, offset in from_json(place).items()}
        try:
            with self._lend(self._options) as consumer:
                consumer.commit(places, timeout=COMMIT_SECONDS)
        except KafkaError as error:
            _log.warning("how far the query is does not show in group %s: %s", group, error)

    def _start(self) -> Offsets:
        with self._lend(self._options) as consumer:
            return resolve(consumer, self._starting, partitions_to_begin_with(consumer, self._options))

    def _kept_promise(self) -> Offsets:
        found = self._start()
        if self._target is None:
            return found
        # Records have come since; they are for the next run.
        return {tp: min(place, self._target[tp]) for tp, place in found.items() if tp in self._target}

    def _ends(self, begun: Offsets) -> Offsets:
        """Where partitions end now, or where the query is to end."""
        if self._target is not None:
            self._target.update(self._ends_of_missing(begun.keys() - self._target.keys()))
            return self._target
        ends = self._watermark.latest()
        return {**ends, **self._ends_of_missing(begun.keys() - ends.keys())}

    def _ends_of_missing(self, missing: Set[TopicPartition]) -> Offsets:
        """Where partitions end that a broker did not know of; without those that are gone."""
        if not missing:
            return {}
        with self._lend(self._options) as consumer:
            there = partitions_after_all(consumer, self._options, missing, missing_ok=True, pause=self._pause)
            return consumer.end_offsets([partition for partition in there if partition in missing])

    def _written(self, offsets: Offsets) -> Written:
        """Offsets as Spark keeps them, with the ids of their topics."""
        return with_ids(to_json(offsets), self._ids_of({partition.topic for partition in offsets}))

    def _ids_of(self, topics: Set[str]) -> Ids:
        unknown = topics - self._ids.keys()
        if unknown:
            self._ids.update(self._look_up(self._options, sorted(unknown)))
        return self._ids

    def _same_topics(self, start: Written, begun: Offsets, ends: Offsets) -> tuple[Offsets, list[Lost]]:
        """The places in topics that are still those they were, and what is lost of the others.

        What `ends` has of the others is cut to where they end now: it may be from before.
        """
        # Without anything to read there is no need to know: an idle query asks nothing.
        if begun != ends and self._clock() - self._asked_at >= DISCOVERY:
            self._ids, self._asked_at = {}, self._clock()
        changed = (ends.keys() - begun.keys() - self._begins.keys()) | (begun.keys() - ends.keys())
        for partition in changed.union(self._shorter(begun, ends)):
            self._ids.pop(partition.topic, None)
        before = ids_in(start)
        found = self._ids_of({partition.topic for partition in ends})
        # One that is just not there keeps its id, lest a later look put that of another one beside its offsets.
        self._ids = {**{topic: before[topic] for topic in before.keys() - found.keys()}, **found}
        anew = created_anew(before, self._ids)
        self._cut_to_new({tp for tp in ends if tp.topic in anew}, ends)
        lost = [Lost(tp, at, None, None, None, is_anew=True) for tp, at in sorted(begun.items()) if tp.topic in anew]
        return {tp: place for tp, place in begun.items() if tp.topic not in anew}, lost

    def _cut_to_new(self, partitions: Set[TopicPartition], ends: Offsets) -> None:
        now = self._ends_of_missing(partitions)
        for partition in partitions:
            if partition in now:
                ends[partition] = min(ends[partition], now[partition])
            else:
                del ends[partition]

    def _begins_of_new(self, begun: Offsets, ends: Offsets) -> tuple[Offsets, list[Lost]]:
        """Where partitions begin that are not in the checkpoint, and what they lost before they were read."""
        new = ends.keys() - begun.keys()
        self._begins = {partition: place for partition, place in self._begins.items() if partition in new}
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
        """Where partitions end that do so before their place, and what they lost."""
        shorter = self._shorter(begun, ends)
        if not shorter:
            return {}, []
        # The watermark may be a little older than a place that was looked up elsewhere. And what is read committed ends
        # at the first open transaction, which a place from when it was not is allowed to be beyond.
        with self._lend(self._options.for_whole_logs()) as consumer:
            first, last = consumer.beginning_offsets(shorter), consumer.end_offsets(shorter)
        cut = [partition for partition in shorter if last[partition] < begun[partition]]
        self._held_back.update({tp: (begun[tp], ends[tp]) for tp in shorter if tp not in cut})
        lost = [Lost(tp, last[tp], begun[tp], first[tp], last[tp]) for tp in cut]
        return {tp: min(ends[tp], last[tp]) for tp in cut}, lost

    def _shorter(self, begun: Offsets, ends: Offsets) -> list[TopicPartition]:
        """Partitions that end before their place, other than those of which it is known why."""
        return sorted(
            partition
            for partition, place in begun.items()
            if place > ends.get(partition, place) and self._held_back.get(partition) != (place, ends[partition])
        )

    def _first(self, chosen: Iterable[TopicPartition]) -> Offsets:
        asked = list(chosen)
        if not asked:
            return {}
        with self._lend(self._options) as consumer:
            return consumer.beginning_offsets(asked)


def _may_change(bound: Bound) -> bool:
    """Whether it may mean other offsets tomorrow, other than that records are gone."""
    return bound.kind in (Kind.LATEST, Kind.COMMITTED) or bound.latest_if_none or LATEST in bound.special()


def _is_promise(written: Written) -> bool:
    return isinstance(written.get(PROMISE), str)
