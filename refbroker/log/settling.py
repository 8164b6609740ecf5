"""After a restart: which of the logs on the disk are the partitions' own, as the metadata has it.

What belongs to no partition of this broker is renamed and stays (`-stray`): a topic can have been deleted, and made
anew elsewhere, while the disk was away. A crash or a failing disk in the middle of a move leaves two logs of a
partition, or a future log in the directory that the metadata names already. When the move came to that point both had
the same records, and from then on only one of them was written, whatever the metadata says; so the longer one is right,
and of equals the one the metadata names. Source: `isStray` and `recoverAbandonedFutureLogs` of Kafka's LogManager,
which does not compare the lengths, and refuses to start with two logs of a partition.
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
"""The id of the directory in which the metadata has the partition of a log, None when the broker does not have it."""


def settle(
    directories: Sequence[LogDirectory], table: LogTable, home: Home, promote: Callable[[str, int], PartitionLog]
) -> None:
    """Bring what was found on the disk in line with the metadata.

    Parameters:
        directories: those that can be used.
        table: the current logs.
        home: what the metadata says.
        promote: puts the future log of a partition in the place of its current one.

    Raises:
        KafkaStorageError: there are two logs of a partition, and the metadata names neither.
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
    """Keep one future log, and let it take over if the metadata says that it has.

    A power failure undoes the removal of one whose move was given up, so that it may lie in another directory than the
    one that is filled now, or beside the current log.
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
    """Go on when a disk fails that has taken its directory offline with that."""
    try:
        yield
    except KafkaStorageError as error:
        if all(directory.is_online for directory in directories):
            raise
        logger.error("%s", error)
