"""The choice, after a restart, of the logs on the disk that belong to partitions, according to the metadata.

Logs of no partition of this broker are renamed and stay (`-stray`): the topic may have been deleted, and created again
elsewhere, while the disk was missing. A crash or a failing disk in the middle of a move leaves two logs of a partition,
or a future log in the directory that the metadata already names. When the move reached that point, both logs had the
same records, and from then on only one of them was written. So the longer one is right; if both are equal, it is the
one that the metadata names. Source: `isStray` and `recoverAbandonedFutureLogs` of Kafka's LogManager, which does not
compare the lengths, and refuses to start with two logs of a partition.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kclient.errors import KafkaStorageError
from refbroker.log.log_dir import METADATA_TOPIC, Key, LogDirectory
from refbroker.log.log_table import LogTable
from refbroker.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

Home = Callable[[PartitionLog], uuid.UUID | None]
"""The id of the directory in which the metadata has the partition of a log; None if the broker does not have it."""


def settle(
    directories: Sequence[LogDirectory], table: LogTable, home: Home, promote: Callable[[str, int], PartitionLog]
) -> None:
    """Make the logs on the disk match the metadata.

    Parameters:
        directories: the usable ones.
        table: the current logs.
        home: returns the directory according to the metadata.
        promote: replaces the current log of a partition by its future log.

    Raises:
        KafkaStorageError: a partition has two logs, and the metadata names neither.
    """
    for directory in directories:
        for log in [*directory.logs.values(), *directory.futures.values()]:
            if log.topic != METADATA_TOPIC and home(log) is None:
                if table.get(log.topic, log.partition) is log:
                    table.remove((log.topic, log.partition))
                with unless_offline(directory):
                    directory.set_aside(log)
    for key in {key for directory in directories for key in directory.logs}:
        _keep_one(key, [directory for directory in directories if key in directory.logs], table, home)
    for key in {key for directory in directories for key in directory.futures}:
        _settle_future(key, [directory for directory in directories if key in directory.futures], table, home, promote)


def _keep_one(key: Key, holders: Sequence[LogDirectory], table: LogTable, home: Home) -> None:
    named = [each for each in holders if each.directory_id == home(each.logs[key])]
    kept = max(holders, key=lambda each: (each.logs[key].log_end_offset, each in named))
    if len(holders) > 1 and not named:
        raise KafkaStorageError(
            f"there are two logs of it, in {' and in '.join(str(each.path) for each in holders)}, and the metadata "
            f"names neither directory; move one away",
            topic=key[0],
            partition=key[1],
        )
    if table.get(*key) is not kept.logs[key]:
        table.put(kept.logs[key], kept)
    for directory in holders:
        if directory is not kept:
            with unless_offline(directory):
                directory.set_aside(directory.logs[key])


def _settle_future(
    key: Key, holders: Sequence[LogDirectory], table: LogTable, home: Home, promote: Callable[[str, int], PartitionLog]
) -> None:
    """Keep one future log, and promote it if the metadata says so.

    A power failure may undo the removal of an aborted move's log, so it may be in another directory than the current
    move's, or beside the current log.
    """
    wanted = [directory for directory in holders if key not in directory.logs]
    kept = max(
        wanted,
        key=lambda each: (each.directory_id == home(each.futures[key]), each.futures[key].log_end_offset),
        default=None,
    )
    for directory in holders:
        if directory is not kept:
            with unless_offline(directory):
                directory.futures.pop(key).delete()
    if kept is None:
        return
    future, current = kept.futures[key], table.get(*key)
    complete = current is None or future.log_end_offset >= current.log_end_offset
    if kept.directory_id == home(future) and complete:
        logger.warning("the move of %s-%d to %s was interrupted; taking it over", *key, kept.path)
        with unless_offline(kept, table.directory_of(key) or kept):
            promote(*key)


@contextmanager
def unless_offline(*directories: LogDirectory) -> Iterator[None]:
    """Ignore the failure of a disk that has taken its directory offline."""
    try:
        yield
    except KafkaStorageError as error:
        if all(directory.is_online for directory in directories):
            raise
        logger.error("%s", error)
