"""Opens the data directories of a broker together, and checks that they belong to one broker.

A directory whose disk fails is offline from the start. The broker starts with the others, but not without the directory
of the metadata log. Contradictions are errors: directories of several clusters or nodes; the same directory or id
twice; a directory without `meta.properties` when others have one, since an unmounted disk looks like that and would
become an empty directory; a metadata log in another directory than the settings say. If all directories are new, they
are formatted.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kclient.errors import KafkaStorageError
from refbroker.log import checkpoints
from refbroker.log.config import LogConfig
from refbroker.log.directory_lock import DirectoryInUseError
from refbroker.log.log_dir import METADATA_TOPIC, LogDirectory
from refbroker.log.log_names import LogName

logger = logging.getLogger(__name__)

# Ids below this one have a special meaning in the metadata.
_RESERVED_IDS = 100


class OpenDirectories(NamedTuple):
    """The data directories of a broker, locked.

    Attributes:
        directories: those for partitions, in the given order; one that failed is offline.
        metadata: the one with the metadata log; it may be separate.
        cluster_id: their cluster.
    """

    directories: list[LogDirectory]
    metadata: LogDirectory
    cluster_id: str

    @property
    def all(self) -> list[LogDirectory]:
        """All of them, including the metadata directory."""
        return list(dict.fromkeys([*self.directories, self.metadata]))


def open_directories(
    directories: Sequence[LogDirectory],
    metadata: LogDirectory,
    cluster_id: str | None,
    node_id: int,
    new_uuid: Callable[[], uuid.UUID],
) -> OpenDirectories:
    """Lock the data directories and read their owners; new ones are formatted.

    Parameters:
        directories: those for partitions.
        metadata: the one with the metadata log; one of those, or one for that alone.
        cluster_id: the cluster's id; None takes the one of the data, or a new one.
        node_id: the broker's.
        new_uuid: returns new ids.

    Raises:
        DirectoryInUseError: another broker uses one.
        KafkaStorageError: the directories contradict each other, or those that are needed cannot be used.
        InconsistentClusterIdError: one belongs to another cluster or node.
    """
    opened = OpenDirectories(list(directories), metadata, "")
    dedicated = [] if metadata in directories else [metadata]
    _check_paths([directory.path for directory in (*directories, *dedicated)])
    names: dict[LogDirectory, list[LogName]] = {}
    for directory in opened.all:
        try:
            directory.open()
            names[directory] = directory.log_names()
        except DirectoryInUseError:
            raise
        except KafkaStorageError as error:
            directory.abandon()
            take_offline_at_start(directory, metadata, error)
    usable = [directory for directory in opened.all if directory.is_online]
    # The metadata directory is formatted last: without it, and without logs, the others were not used yet.
    if metadata.properties is not None or any(names[each] for each in usable if each.properties is not None):
        _check_formatted(usable)
    owner = _identify(usable, metadata, cluster_id, node_id, new_uuid)
    _check_ids(usable)
    for directory in usable:
        if directory is not metadata and any(name.topic == METADATA_TOPIC for name in names[directory]):
            raise KafkaStorageError(
                f"there is a metadata log in {directory.path}, but it is looked for in {metadata.path}: in "
                f"metadata.log.dir, or else in the first of log.dirs; set these as they were before"
            )
    return opened._replace(cluster_id=owner)


def load_directories(opened: OpenDirectories, config: LogConfig) -> None:
    """Open every log in the directories; those whose disk fails go offline.

    Raises:
        KafkaStorageError: the metadata directory fails, or a file is damaged that cannot be rebuilt.
    """
    for directory in opened.all:
        if directory.is_online:
            try:
                directory.load(config)
            except KafkaStorageError as error:
                if not isinstance(error.__cause__, OSError):
                    raise
                directory.abandon()
                directory.logs.clear()
                directory.futures.clear()
                take_offline_at_start(directory, opened.metadata, error)


def take_offline_at_start(directory: LogDirectory, metadata: LogDirectory, error: KafkaStorageError) -> None:
    """Start without a directory.

    Raises:
        KafkaStorageError: it is the one with the metadata log.
    """
    if directory is metadata:
        raise KafkaStorageError(f"the broker cannot start without its metadata log: {error.message}") from error
    logger.error("starting without the data directory %s: %s", directory.path, error)
    directory.health.fail(error)


def _check_paths(paths: Sequence[Path]) -> None:
    seen: set[Path] = set()
    for path in paths:
        resolved = path.resolve()
        if resolved in seen:
            raise KafkaStorageError(f"the data directory {path} is given twice in log.dirs; name it once")
        seen.add(resolved)


def _check_formatted(usable: Sequence[LogDirectory]) -> None:
    others = ", ".join(str(directory.path) for directory in usable if directory.properties is not None)
    for directory in usable:
        if directory.properties is None:
            raise KafkaStorageError(
                f"there is no meta.properties in {directory.path}, but in {others}; is its disk mounted? A new data "
                f"directory is made part of these with `refbroker format --ignore-formatted`, or by copying "
                f"meta.properties there without the line directory.id"
            )


def _identify(
    usable: Sequence[LogDirectory],
    metadata: LogDirectory,
    cluster_id: str | None,
    node_id: int,
    new_uuid: Callable[[], uuid.UUID],
) -> str:
    """Return the cluster of the directories; format new ones, and assign ids to those without one."""
    formatted = [directory for directory in usable if directory.properties is not None]
    for directory in formatted:
        found = directory.properties
        assert found is not None
        cluster_id = cluster_id or found.cluster_id
        checkpoints.check_owner(found, directory.path, cluster_id, node_id)
    cluster_id = cluster_id or checkpoints.encode_uuid(new_uuid())
    taken = {directory.directory_id for directory in formatted}
    for directory in sorted(usable, key=lambda each: each is metadata):
        if not directory.directory_id.int:
            directory_id = next(found for found in iter(new_uuid, None) if found not in taken)
            taken.add(directory_id)
            try:
                directory.format(cluster_id, node_id, directory_id)
            except KafkaStorageError as error:
                take_offline_at_start(directory, metadata, error)
    return cluster_id


def _check_ids(directories: Sequence[LogDirectory]) -> None:
    seen: dict[uuid.UUID, LogDirectory] = {}
    for directory in directories:
        if not directory.is_online:
            continue
        found = directory.directory_id
        if found.int < _RESERVED_IDS:
            raise KafkaStorageError(
                f"{directory.path} has the id {checkpoints.encode_uuid(found)}, which is reserved; delete the line "
                f"directory.id in its meta.properties to have it given another"
            )
        other = seen.setdefault(found, directory)
        if other is not directory:
            raise KafkaStorageError(
                f"{other.path} and {directory.path} have the same directory.id {checkpoints.encode_uuid(found)} in "
                f"meta.properties, as copies do; delete that line in the copy"
            )
