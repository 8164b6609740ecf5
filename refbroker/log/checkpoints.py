"""The small text files beside the data, each replaced as a whole.

Per data directory:

    recovery-point-offset-checkpoint   up to where each log is known to be on the disk
    log-start-offset-checkpoint        the first offset, where it is beyond the first segment's
    replication-offset-checkpoint      the high watermarks
    cleaner-offset-checkpoint          up to where each log is compacted; logs that never were are not in it

each of them a version, a count and a line `<topic> <partition> <offset>` per partition:

    0
    2
    orders 0 1500
    orders 1 0

    meta.properties                    whose directory this is, in Java's properties format:
                                       version=1, cluster.id, node.id, directory.id
    .kafka_cleanshutdown               there only after a clean stop: {"version":0,"brokerEpoch":-1}

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

TopicPartitionKey = tuple[str, int]

# Escapes of Java's properties format that values here can carry.
_PROPERTY_ESCAPES = str.maketrans({"\\": "\\\\", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"})


def random_uuid(source: random.Random) -> UUID:
    """A new id; its text does not begin with a dash, which command lines would take for an option."""
    while True:
        value = UUID(int=source.getrandbits(128), version=4)
        # The first character stands for six bits; the 62 of them is the dash.
        if value.bytes[0] >> 2 != 62:
            return value


def encode_uuid(value: UUID) -> str:
    """An id as Kafka writes it, such as `Xx2Fmd1lTXaHMxaBp4Yi8g`."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID:
    """The id that Kafka writes as `text`.

    Raises:
        ValueError: not an id.
    """
    try:
        return UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not an id in Kafka's form: {text!r}") from error


def encode_table(rows: Iterable[Iterable[object]]) -> bytes:
    """A checkpoint file: version 0, the count of rows, and the rows."""
    lines = [" ".join(str(cell) for cell in row) for row in rows]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def decode_table(data: bytes, path: Path) -> list[list[str]]:
    """The rows of a checkpoint file; Kafka makes it empty before it has any.

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
    """The offsets of a checkpoint file by topic and partition; none when there is no such file.

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
    """The topic id in a partition's directory, None when the partition has none yet.

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


def write_clean_shutdown(files: Files, directory: Path, broker_epoch: int = -1) -> None:
    """Mark that everything in the data directory is complete on disk."""
    files.write_bytes(directory / CLEAN_SHUTDOWN, msgspec.json.encode({"version": 0, "brokerEpoch": broker_epoch}))


@dataclass(frozen=True)
class MetaProperties:
    """Whose data directory it is.

    Attributes:
        cluster_id: of the cluster.
        node_id: of the broker.
        directory_id: of this directory; a directory that Kafka formatted long ago may have none.
    """

    cluster_id: str
    node_id: int
    directory_id: UUID | None

    def encode(self) -> bytes:
        """The file's content."""
        properties = {"cluster.id": self.cluster_id, "node.id": str(self.node_id), "version": "1"}
        if self.directory_id is not None:
            properties["directory.id"] = encode_uuid(self.directory_id)
        lines = [f"{name}={value.translate(_PROPERTY_ESCAPES)}" for name, value in sorted(properties.items())]
        return ("\n".join(("#", *lines)) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes, path: Path) -> MetaProperties:
        """Read `meta.properties`, version 1.

        Raises:
            KafkaStorageError: a property is missing or wrong.
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
    """The `meta.properties` of a data directory, None when it is not formatted.

    Raises:
        KafkaStorageError: the file is damaged.
    """
    path = directory / META_PROPERTIES
    return MetaProperties.decode(files.read_bytes(path), path) if files.exists(path) else None


def write_meta_properties(files: Files, directory: Path, properties: MetaProperties) -> None:
    """Format a data directory."""
    files.write_bytes(directory / META_PROPERTIES, properties.encode())


def check_owner(found: MetaProperties, directory: Path, cluster_id: str, node_id: int) -> None:
    """See that a data directory belongs to this broker.

    Raises:
        InconsistentClusterIdError: another cluster's, or another node's.
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
