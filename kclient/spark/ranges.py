"""The partitions of a read, and for a batch the offsets.

Partitions are listed for each batch, so that new topics and partitions join a stream. Elsewhere: look-up of offsets
(`offsets`), and division of ranges (`planning`).

Any broker responds to the listing, and one that has just started or lost its connection to others may not know a topic.
A stream that reads without a partition loses its records, or reads them twice when it returns. So a partition counts as
lost only if it is missing for some seconds (`partitions_in_several_listings`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kclient.errors import UnknownTopicOrPartitionError
from kclient.spark.clock import sleep
from kclient.spark.consumers import borrow
from kclient.spark.offsets import Offsets, Range, available, resolve
from kclient.spark.options import ReadOptions
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient import Consumer

_log = logging.getLogger(__name__)

LISTINGS = 4
"""How often a partition must be missing before it counts as lost."""

BETWEEN = 1.0
"""The seconds between these listings."""


def partitions(consumer: Consumer, options: ReadOptions, *, missing_ok: bool = False) -> list[TopicPartition]:
    """Return the partitions of the options, in order.

    Parameters:
        consumer: sends the requests.
        options: the options of the read.
        missing_ok: whether topics and partitions that do not exist are omitted instead of an error.

    Raises:
        UnknownTopicOrPartitionError: a named topic or partition does not exist. A pattern may match nothing.
        KafkaError: the request failed.
    """
    if options.assign is not None:
        return _assigned(consumer, options.assign, missing_ok)
    if options.subscribe is not None:
        counts = {name: _numbers(consumer, name, missing_ok) for name in options.subscribe}
    else:
        pattern = re.compile(options.subscribe_pattern or "")
        listed = consumer.list_topics()
        counts = {name: [one.partition for one in infos] for name, infos in listed.items() if pattern.fullmatch(name)}
    return sorted(TopicPartition(name, number) for name, numbers in counts.items() for number in numbers)


def partitions_to_begin_with(consumer: Consumer, options: ReadOptions) -> list[TopicPartition]:
    """Return the partitions when a read begins; log if a pattern matches nothing yet."""
    found = partitions(consumer, options)
    if not found:
        _log.warning(
            "subscribePattern %r matches no topic on %s, so there is nothing to read",
            options.subscribe_pattern,
            options.servers,
        )
    return found


def partitions_in_several_listings(
    consumer: Consumer,
    options: ReadOptions,
    expected: Iterable[TopicPartition] = (),
    *,
    missing_ok: bool = False,
    pause: Callable[[float], None] = sleep,
) -> list[TopicPartition]:
    """Return the partitions that exist in at least one of several listings, in order; list again while some are
    missing.

    Parameters:
        expected: the partitions, beside the named ones, without which the listing is repeated.
        pause: waits for a number of seconds.

    Raises:
        UnknownTopicOrPartitionError: a named topic or partition was missing in every listing.
        KafkaError: the request failed.
    """
    found: set[TopicPartition] = set()
    missing: UnknownTopicOrPartitionError | None = None
    for number in range(LISTINGS):
        if number:
            pause(BETWEEN)
        try:
            found.update(partitions(consumer, options, missing_ok=missing_ok))
        except UnknownTopicOrPartitionError as error:
            missing = error
            continue
        if found.issuperset(expected):
            return sorted(found)
    if missing is not None and not found:
        raise missing
    return sorted(found)


def _numbers(consumer: Consumer, topic: str, missing_ok: bool) -> list[int]:
    try:
        return [one.partition for one in consumer.partitions_for(topic)]
    except UnknownTopicOrPartitionError:
        if missing_ok:
            return []
        raise


def _assigned(consumer: Consumer, assign: dict[str, list[int]], missing_ok: bool) -> list[TopicPartition]:
    chosen: set[TopicPartition] = set()
    for topic, numbers in assign.items():
        there = set(_numbers(consumer, topic, missing_ok))
        missing = sorted(set(numbers) - there)
        if missing and not missing_ok:
            raise UnknownTopicOrPartitionError(topic=topic, partition=missing[0])
        chosen |= {TopicPartition(topic, number) for number in there.intersection(numbers)}
    return sorted(chosen)


def batch_ranges(consumer: Consumer, options: ReadOptions) -> list[Range]:
    """Return the ranges of a batch.

    Parameters:
        consumer: sends the requests.
        options: the options, from `ReadOptions.for_batch`.

    Raises:
        DataLossError: requested offsets are lost, and that is an error.
        OptionError: the options do not match the existing partitions.
        KafkaError: see `partitions`.
    """
    assert options.starting is not None
    assert options.ending is not None
    chosen = partitions_to_begin_with(consumer, options)
    if not chosen:
        return []
    # In this order, because logs change in the meantime: the earliest and latest offsets must not be taken for lost
    # ones.
    first = consumer.beginning_offsets(chosen)
    start = resolve(consumer, options.starting, chosen)
    end = resolve(consumer, options.ending, chosen)
    last = consumer.end_offsets(chosen)
    return in_logs(options, [Range(partition, start[partition], end[partition]) for partition in chosen], first, last)


def in_logs(
    options: ReadOptions,
    ranges: list[Range],
    first: Mapping[TopicPartition, int],
    last: Offsets,
    lend: Callable[[ReadOptions], AbstractContextManager[Consumer]] = borrow,
) -> list[Range]:
    """Return the ranges as far as they exist in the logs; see `offsets.available`.

    With read_committed, a partition ends at the first open transaction. A range may go beyond, if it was set by the
    user or while the isolation level was another one: that is no loss, and who reads it waits until the transaction is
    over.

    Parameters:
        first, last: by partition, where it begins and ends for a consumer with these options; the latter may be a
            little old.
        lend: lends a consumer that looks at the whole logs, if a range goes beyond.

    Raises:
        DataLossError: something is missing, and that is an error.
        KafkaError: the brokers cannot tell.
    """
    beyond = [one.partition for one in ranges if max(one.start, one.end) > last[one.partition]]
    if beyond:
        with lend(options.for_whole_logs()) as consumer:
            last = {**last, **consumer.end_offsets(beyond)}
    return available(ranges, first, last, fail_on_data_loss=options.fail_on_data_loss)
