"""What a read is about: which partitions, as they are now, and for a batch which offsets of them.

Partitions are asked for anew for each batch, so that new topics and partitions join a stream. Leaves out how offsets
are written and looked up (`offsets`), and how a range is divided (`planning`).

What there is, is told by one broker, any of them, and one that has just come up or has lost touch with the others may
not know of a topic. To read a stream without a partition is to lose its records, or to read them twice when it is there
again: so it is gone only if it is missing for some seconds (`partitions_after_all`).
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

LOOKS = 4
"""How often a partition must be missing before it is gone."""

BETWEEN = 1.0
"""Seconds between two of these looks."""


def partitions(consumer: Consumer, options: ReadOptions, *, missing_ok: bool = False) -> list[TopicPartition]:
    """The partitions that the options name, in order.

    Parameters:
        consumer: asks the brokers.
        options: what names them.
        missing_ok: whether what is named and does not exist is left out, and is no error.

    Raises:
        UnknownTopicOrPartitionError: a topic or a partition that is named does not exist. A pattern may match nothing.
        KafkaError: the brokers cannot tell.
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
    """The same, when a read begins: if a pattern matches nothing yet, that is logged."""
    found = partitions(consumer, options)
    if not found:
        _log.warning(
            "subscribePattern %r matches no topic on %s, so there is nothing to read",
            options.subscribe_pattern,
            options.servers,
        )
    return found


def partitions_after_all(
    consumer: Consumer,
    options: ReadOptions,
    expected: Iterable[TopicPartition] = (),
    *,
    missing_ok: bool = False,
    pause: Callable[[float], None] = sleep,
) -> list[TopicPartition]:
    """The same, but what is missing is looked for several times; in order, all that were there in one of the looks.

    Parameters:
        expected: what must be there, beside what is named, for one look to suffice.
        pause: waits for so many seconds.

    Raises:
        UnknownTopicOrPartitionError: a topic or a partition that is named was not there in any of the looks.
        KafkaError: the brokers cannot tell.
    """
    found: set[TopicPartition] = set()
    missing: UnknownTopicOrPartitionError | None = None
    for number in range(LOOKS):
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
    """What a batch reads, by partition.

    Parameters:
        consumer: asks the brokers.
        options: as `ReadOptions.for_batch` has them.

    Raises:
        DataLossError: offsets that are asked for are gone, and that is an error.
        OptionError: the options do not fit the partitions that there are.
        KafkaError: see `partitions`.
    """
    assert options.starting is not None
    assert options.ending is not None
    chosen = partitions_to_begin_with(consumer, options)
    if not chosen:
        return []
    # In this order, since logs move on meanwhile: what is earliest or latest is never taken for something that is gone.
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
    """The ranges as far as the logs have them; see `offsets.available`.

    What is read committed ends at the first open transaction. A range may go beyond, if it was chosen by hand or while
    the isolation level was another one: that is no loss, and who reads it waits until the transaction is over.

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
