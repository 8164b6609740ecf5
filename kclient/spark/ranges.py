"""What a read is about: which partitions, as they are now, and for a batch which offsets of them.

Partitions are asked for anew for each batch, so that new topics and partitions join a stream. Leaves out how offsets
are written and looked up (`offsets`), and how a range is divided (`planning`).
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from kclient.errors import UnknownTopicOrPartitionError
from kclient.spark.offsets import Range, available, resolve
from kclient.spark.options import ReadOptions
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient import Consumer

_log = logging.getLogger(__name__)


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
        if not counts:
            _log.warning("subscribePattern %r matches no topic", options.subscribe_pattern)
    return sorted(TopicPartition(name, number) for name, numbers in counts.items() for number in numbers)


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
    chosen = partitions(consumer, options)
    if not chosen:
        return []
    # In this order, since logs move on meanwhile: what is earliest or latest is never taken for something that is gone.
    first = consumer.beginning_offsets(chosen)
    start = resolve(consumer, options.starting, chosen)
    end = resolve(consumer, options.ending, chosen)
    last = consumer.end_offsets(chosen)
    ranges = [Range(partition, start[partition], end[partition]) for partition in chosen]
    return available(ranges, first, last, fail_on_data_loss=options.fail_on_data_loss)
