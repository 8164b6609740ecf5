"""`bootstrap.checkpoint` in each data directory: the first records of a new cluster's metadata log.

Formatting writes the file, the first start copies its records to the log, and later starts ignore it. It has the format
of a snapshot (see `refbroker.metadata.snapshot_file`), with epoch and time 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kclient.errors import KafkaStorageError
from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from refbroker.log import Files
from refbroker.log.files import storage_errors
from refbroker.metadata.features import ELIGIBLE_LEADER_REPLICAS_VERSION, SUPPORTED_FEATURES
from refbroker.metadata.image import BROKER_RESOURCE
from refbroker.metadata.snapshot_file import Snapshot, encode_snapshot, read_snapshot, write_snapshot
from refbroker.metadata.versions import LATEST, METADATA_VERSION, TRANSACTIONS

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


def default_bootstrap_records(metadata_version: int = LATEST) -> list[Message]:
    """Return the features of a new cluster of this broker.

    Parameters:
        metadata_version: the level of that feature; the others have their highest level.
    """
    levels = {name: high for name, (_, high) in SUPPORTED_FEATURES.items()} | {METADATA_VERSION: metadata_version}
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]


def bootstrap_records(files: Files, directory: Path, now_ms: int) -> list[Message]:
    """Return the first records of the metadata log; the default ones in a directory that was not formatted.

    Parameters:
        directory: the data directory of the metadata log.
        now_ms: milliseconds since the epoch.

    Raises:
        KafkaStorageError: the file is damaged or names no `metadata.version`, or the disk fails.
    """
    path = directory / BOOTSTRAP_CHECKPOINT
    with storage_errors(f"read {path}"):
        if not files.exists(path):
            write_bootstrap(files, directory, default_bootstrap_records(), now_ms)
        records = read_snapshot(files, path).records
    if not any(isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION for record in records):
        raise KafkaStorageError(f"{path} does not say which metadata.version the cluster begins with; format it again")
    return records


def write_bootstrap(files: Files, directory: Path, records: Sequence[Message], now_ms: int) -> None:
    """Write the first records of the metadata log.

    Parameters:
        records: the records, including the level of `metadata.version`.
        now_ms: milliseconds since the epoch.

    Raises:
        KafkaStorageError: the disk fails.
    """
    levels = {record.name: record.feature_level for record in records if isinstance(record, FeatureLevelRecord)}
    path = directory / BOOTSTRAP_CHECKPOINT
    with storage_errors(f"write {path}"):
        write_snapshot(files, path, encode_snapshot(Snapshot(list(records)), 0, levels[METADATA_VERSION], now_ms))


def activation_records(bootstrap: Sequence[Message], min_insync_replicas: int) -> list[Message]:
    """Return the first records of a new cluster's metadata log.

    Parameters:
        bootstrap: the records from formatting.
        min_insync_replicas: the broker's setting, which becomes the cluster's with eligible leader replicas.
    """
    levels = {record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)}
    records = list(bootstrap)
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records.append(
            ConfigRecord(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                name="min.insync.replicas",
                value=str(min_insync_replicas),
            )
        )
    if levels[METADATA_VERSION] < TRANSACTIONS:
        return records
    return [BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord()]
