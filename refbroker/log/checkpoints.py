"""The checkpoint and properties files of data directories; each write replaces the whole file.

Per data directory:

    recovery-point-offset-checkpoint   the offset up to which each log has been flushed to disk
    log-start-offset-checkpoint        the log start offset, if it is after the first segment's base offset
    replication-offset-checkpoint      the high watermarks
    cleaner-offset-checkpoint          the offset up to which each log is compacted; omits logs never compacted

Each of these has a version, a count and a line `<topic> <partition> <offset>` per partition:

    0
    2
    orders 0 1500
    orders 1 0

    meta.properties                    the owner of the directory, in Java's properties format:
                                       version=1, cluster.id, node.id, directory.id
    .kafka_cleanshutdown               exists only after a clean shutdown: {"version":0,"brokerEpoch":-1}

Per partition directory, `partition.metadata`:

    version: 0
    topic_id: <id>

Ids are Kafka's: 16 bytes in URL-safe base64 without padding.
"""

from __future__ import annotations

import base64
import binascii
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import msgspec

from kclient._properties import ENCODING, parse_properties
from kclient.errors import InconsistentClusterIdError, KafkaStorageError
from refbroker.log.files import Files

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"

NO_EPOCH = -1

TopicPartitionKey = tuple[str, int]

# The escapes of Java's properties format that occur in these values.
_PROPERTY_ESCAPES = str.maketrans({"\\": "\\\\", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"})


def random_uuid(source: random.Random) -> UUID:
    """Return a new id; its text does not begin with a dash, which commands would take for an option."""
    while True:
        value = UUID(int=source.getrandbits(128), version=4)
        # The first character encodes six bits; the value 62 is a dash.
        if value.bytes[0] >> 2 != 62:
            return value


def encode_uuid(value: UUID) -> str:
    """Return an id in Kafka's format, such as `Xx2Fmd1lTXaHMxaBp4Yi8g`."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    """Return the id that `text` represents in Kafka's format.

    Raises:
        ValueError: the text is not an id.
    """
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not an id in Kafka's form: {text!r}") from error


def encode_table(rows: Iterable[Iterable[object]]) -> bytes:
    """Return the contents of a checkpoint file: version 0, the count of rows, and the rows."""
    lines = [" ".join(str(cell) for cell in row) for row in rows]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def decode_table(data: bytes, path: Path) -> list[list[str]]:
    """Return the rows of a checkpoint file. Kafka creates the file empty, so an empty file has no rows.

    Raises:
        KafkaStorageError: the file is not a checkpoint of version 0, or rows are missing.
    """
    lines = data.decode("utf-8", "replace").splitlines()
    if not lines:
        return []
    if len(lines) < 2 or lines[0].strip() != "0" or lines[1].strip() != str(len(lines) - 2):
        raise KafkaStorageError(f"the checkpoint file {path} is damaged: version, count and rows do not fit")
    return [line.split() for line in lines[2:]]


def read_offsets(files: Files, path: Path) -> dict[TopicPartitionKey, int]:
    """Return the offsets of a checkpoint file by topic and partition; empty if the file does not exist.

    Raises:
        KafkaStorageError: the file is damaged.
    """
    if not files.exists(path):
        return {}
    try:
        rows = decode_table(files.read_bytes(path), path)
        return {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except ValueError as error:
        raise KafkaStorageError(f"the checkpoint file {path} is damaged: {error}") from error


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartitionKey, int]) -> None:
    """Replace a checkpoint file of offsets."""
    rows = [(topic, partition, offset) for (topic, partition), offset in sorted(offsets.items())]
    files.write_bytes(path, encode_table(rows))


def read_topic_id(files: Files, directory: Path) -> UUID | None:
    """Return the topic id in a partition's directory, None if the partition has no topic id yet.

    Raises:
        KafkaStorageError: the file is damaged.
    """
    path = directory / PARTITION_METADATA
    if not files.exists(path):
        return None
    lines = files.read_bytes(path).decode("utf-8", "replace").splitlines()
    values = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    try:
        if values["version"] != "0":
            raise ValueError(f"version {values['version']}")
        return decode_uuid(values["topic_id"])
    except (KeyError, ValueError) as error:
        raise KafkaStorageError(f"{path} is damaged: {error}") from error


def write_topic_id(files: Files, directory: Path, topic_id: UUID, *, sync: bool = True) -> None:
    """Write a partition's `partition.metadata`."""
    text = f"version: 0\ntopic_id: {encode_uuid(topic_id)}"
    files.write_bytes(directory / PARTITION_METADATA, text.encode(), sync=sync)


def write_clean_shutdown(files: Files, directory: Path, broker_epoch: int = NO_EPOCH) -> None:
    """Write the mark of a clean shutdown: all files in the data directory are complete."""
    files.write_bytes(directory / CLEAN_SHUTDOWN, msgspec.json.encode({"version": 0, "brokerEpoch": broker_epoch}))


def read_clean_shutdown(files: Files, directory: Path) -> int | None:
    """Return the broker epoch in the mark of a clean shutdown, -1 if it has none; None without the mark.

    Raises:
        OSError: the disk fails.
    """
    path = directory / CLEAN_SHUTDOWN
    if not files.exists(path):
        return None
    try:
        return int(msgspec.json.decode(files.read_bytes(path))["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        # Kafka before 3.8 left the file empty.
        return NO_EPOCH


@dataclass(frozen=True)
class MetaProperties:
    """The cluster, the broker and the id of a data directory.

    Attributes:
        cluster_id: the id of the cluster.
        node_id: the id of the broker.
        directory_id: the id of the directory; None if an old version of Kafka formatted the directory.
    """

    cluster_id: str
    node_id: int
    directory_id: UUID | None

    def encode(self) -> bytes:
        """Return the contents of the file."""
        properties = {"cluster.id": self.cluster_id, "node.id": str(self.node_id), "version": "1"}
        if self.directory_id is not None:
            properties["directory.id"] = encode_uuid(self.directory_id)
        lines = [f"{name}={value.translate(_PROPERTY_ESCAPES)}" for name, value in sorted(properties.items())]
        return ("\n".join(("#", *lines)) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, path: Path) -> MetaProperties:
        """Read `meta.properties`, version 1.

        Raises:
            KafkaStorageError: a property is missing or invalid.
        """
        try:
            properties = parse_properties(data.decode(ENCODING))
            if properties["version"] != "1":
                raise ValueError(f"version {properties['version']}")
            directory_id = properties.get("directory.id")
            return cls(
                properties["cluster.id"],
                int(properties["node.id"]),
                None if directory_id is None else decode_uuid(directory_id),
            )
        except (KeyError, ValueError) as error:
            raise KafkaStorageError(
                f"{path} is damaged: {error}; restore it, or write it as `refbroker format` does: version=1, and the "
                f"cluster.id and node.id of the data"
            ) from error


def read_meta_properties(files: Files, directory: Path) -> MetaProperties | None:
    """Return the `meta.properties` of a data directory, None if the directory is not formatted.

    Raises:
        KafkaStorageError: the file is damaged.
    """
    path = directory / META_PROPERTIES
    return MetaProperties.decode(files.read_bytes(path), path) if files.exists(path) else None


def write_meta_properties(files: Files, directory: Path, properties: MetaProperties) -> None:
    """Write the `meta.properties` of a data directory, which marks it as formatted."""
    files.write_bytes(directory / META_PROPERTIES, properties.encode())


def check_owner(found: MetaProperties, directory: Path, cluster_id: str, node_id: int) -> None:
    """Check that a data directory belongs to this broker.

    Raises:
        InconsistentClusterIdError: the directory belongs to another cluster or node.
    """
    if found.cluster_id != cluster_id:
        raise InconsistentClusterIdError(
            f"{directory} belongs to the cluster {found.cluster_id}, not to {cluster_id}; "
            f"use another data directory, or start with the cluster id it was formatted with"
        )
    if found.node_id != node_id:
        raise InconsistentClusterIdError(
            f"{directory} belongs to node {found.node_id}, not to node {node_id}; "
            f"use another data directory, or start with node.id={found.node_id}"
        )
