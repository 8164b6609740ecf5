"""Formatting and description of data directories, as in kafka-storage.

Formatting writes `bootstrap.checkpoint`, the first records of a new cluster's metadata log, and then
`meta.properties`, which completes the data directory. With voters in the log (kraft.version 1), the directory of the
metadata log also gets a first snapshot, 0-0, that contains them. This broker creates missing directories when it
starts; formatting them first is needed only to choose the cluster id or the features, or to start Apache Kafka on
them. Checks and messages are Kafka's. Source: `Formatter`, `StorageTool`.

Not implemented: several voters.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from kclient.errors import ConfigError, KafkaStorageError
from kclient.protocol import Message
from kclient.protocol.messages.records.control import VotersRecord
from kclient.protocol.messages.records.metadata_log import FeatureLevelRecord, UserScramCredentialRecord
from refbroker.config import BrokerConfig
from refbroker.controller.bootstrap import write_bootstrap
from refbroker.log import Files
from refbroker.log.checkpoints import (
    META_PROPERTIES,
    MetaProperties,
    check_owner,
    encode_uuid,
    random_uuid,
    read_meta_properties,
    write_meta_properties,
)
from refbroker.log.files import storage_errors
from refbroker.log.log_dir import METADATA_TOPIC
from refbroker.metadata.control_records import VoterSet
from refbroker.metadata.features import KAFKA_FEATURES
from refbroker.metadata.image import KRAFT_VERSION
from refbroker.metadata.snapshot_file import Snapshot, SnapshotId, encode_snapshot, write_snapshot
from refbroker.metadata.versions import LATEST, METADATA_VERSION, METADATA_VERSIONS
from refbroker.settings.listeners import Listener

KRAFT_VERSION_LEVELS = (0, 1)


@dataclass(frozen=True)
class FormatPlan:
    """The contents that data directories are formatted with.

    Attributes:
        cluster_id: the id of the cluster.
        node_id: the id of the broker.
        directories: the data directories.
        metadata_directory: the data directory for the metadata log.
        levels: the level of each feature, including `metadata.version`.
        credentials: the first users for SCRAM.
        controller: the controller's listener if it becomes the only voter in the metadata log; else None.
    """

    cluster_id: str
    node_id: int
    directories: tuple[Path, ...]
    metadata_directory: Path
    levels: dict[str, int] = field(default_factory=dict)
    credentials: tuple[UserScramCredentialRecord, ...] = ()
    controller: Listener | None = None

    @property
    def records(self) -> list[Message]:
        """The first records of the metadata log: features, then users."""
        return [*self.feature_records, *self.credentials]

    @property
    def feature_records(self) -> list[FeatureLevelRecord]:
        """The records of the features: `metadata.version`, then the others by name. Level 0 has no record."""
        others = sorted(set(self.levels) - {METADATA_VERSION, KRAFT_VERSION})
        return [
            FeatureLevelRecord(name=name, feature_level=self.levels[name])
            for name in (METADATA_VERSION, *others)
            if self.levels[name]
        ]


def release_level(text: str) -> int:
    """Return the `metadata.version` of a release, such as `4.3`, or of a version name, such as `4.3-IV0`.

    Raises:
        ConfigError: the release or version is unknown.
    """
    released = re.match(r"[0-9]+\.[0-9]+", text)
    named = [version for version in METADATA_VERSIONS if version.name == text]
    # A release may have several versions; its own is the last.
    if not named and released is not None and "-" not in text:
        named = [version for version in METADATA_VERSIONS if version.name.startswith(f"{released[0]}-")]
    if not named:
        known = ", ".join(version.name for version in METADATA_VERSIONS)
        raise ConfigError(f"Unknown metadata.version '{text}'. Supported metadata.version are: {known}")
    return named[-1].level


def metadata_version_name(level: int) -> str:
    """Return the name of a level of `metadata.version`."""
    return next(version.name for version in METADATA_VERSIONS if version.level == level)


def plan_levels(given: Mapping[str, int], release: str | None, *, dynamic_quorum: bool) -> dict[str, int]:
    """Return the level of each feature: those given, and for others the default of a new cluster of the release.

    Parameters:
        given: levels by feature.
        release: as for `release_level`; None for the latest.
        dynamic_quorum: whether the voters are in the metadata log instead of the settings.

    Raises:
        ConfigError: a feature or level does not exist, or is incompatible with the others.
    """
    if METADATA_VERSION in given and release is not None:
        raise ConfigError("Use --release-version instead of --feature metadata.version=X to avoid ambiguity.")
    metadata_version = given.get(METADATA_VERSION, LATEST if release is None else release_level(release))
    if metadata_version not in (version.level for version in METADATA_VERSIONS):
        first, last = METADATA_VERSIONS[0].level, METADATA_VERSIONS[-1].level
        raise ConfigError(
            f"No MetadataVersion with feature level {metadata_version}. "
            f"Valid feature levels are from {first} to {last}."
        )
    for name in given:
        if name not in KAFKA_FEATURES and name != METADATA_VERSION:
            raise ConfigError(
                f"Unsupported feature: {name}. Supported features are: {', '.join(sorted(KAFKA_FEATURES))}"
            )
    levels = {METADATA_VERSION: metadata_version}
    for name, above in KAFKA_FEATURES.items():
        begins = sum(level.since <= metadata_version for level in above)
        levels[name] = given.get(name, int(dynamic_quorum) if name == KRAFT_VERSION else begins)
        _check_level(name, levels[name], metadata_version)
    if bool(levels[KRAFT_VERSION]) != dynamic_quorum:
        raise ConfigError(
            f"Cannot set kraft.version to {levels[KRAFT_VERSION]} "
            + (
                "if controller.quorum.voters is empty and one of the flags --standalone or --no-initial-controllers is "
                "used. For dynamic controllers support, try removing the --feature flag for kraft.version."
                if dynamic_quorum
                else "unless controller.quorum.voters is empty and one of the flags --standalone or "
                "--no-initial-controllers is used."
            )
        )
    return levels


def _check_level(name: str, level: int, metadata_version: int) -> None:
    above = KAFKA_FEATURES[name]
    if not 0 <= level <= len(above):
        raise ConfigError(f"No feature:{name} with feature level {level}")
    needs = above[level - 1].needs if level else 0
    if needs > metadata_version:
        raise ConfigError(f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needs}")


def format_directories(
    plan: FormatPlan, *, ignore_formatted: bool, files: Files, rng: random.Random, now_ms: int
) -> Iterator[str]:
    """Format the directories, and yield a line about each step before it is done.

    Parameters:
        ignore_formatted: skip directories that are formatted already; else they are an error.
        files: the disk.
        rng: the source of directory ids.
        now_ms: milliseconds since the epoch.

    Raises:
        KafkaStorageError: a directory is formatted already, or a disk fails.
        InconsistentClusterIdError: a directory belongs to another cluster or node.
    """
    formatted = []
    for directory in plan.directories:
        found = read_meta_properties(files, directory)
        if found is not None:
            check_owner(found, directory, plan.cluster_id, plan.node_id)
            formatted.append(directory)
    if formatted and not ignore_formatted:
        raise KafkaStorageError(
            f"Log directory {formatted[0]} is already formatted. "
            f"Use --ignore-formatted to ignore this directory and format the others."
        )
    if len(formatted) == len(plan.directories):
        yield "All of the log directories are already formatted."
        return
    level = plan.levels[METADATA_VERSION]
    shown = ", ".join(
        f"ApiMessageAndVersion(FeatureLevelRecord(name='{name}', featureLevel={number}) at version 0)"
        for name, number in ((record.name, record.feature_level) for record in plan.feature_records)
    )
    yield (
        f"Bootstrap metadata: BootstrapMetadata(records=[{shown}], metadataVersionLevel={level}, source=format command)"
    )
    for directory in plan.directories:
        if directory not in formatted:
            kind = _kind(plan, directory)
            yield f"Formatting {kind} {directory} with {METADATA_VERSION} {metadata_version_name(level)}."
            _format(plan, directory, files, random_uuid(rng), now_ms)


def _kind(plan: FormatPlan, directory: Path) -> str:
    if directory != plan.metadata_directory:
        return "data directory"
    return "metadata directory" if plan.controller is None else "dynamic metadata voter directory"


def _format(plan: FormatPlan, directory: Path, files: Files, directory_id: UUID, now_ms: int) -> None:
    """Format one directory; `meta.properties` is written last, so that an interrupted run can be repeated."""
    with storage_errors(f"format {directory}"):
        files.make_directory(directory)
        write_bootstrap(files, directory, plan.records, now_ms)
        if directory == plan.metadata_directory and plan.controller is not None:
            _write_voters(plan, directory / f"{METADATA_TOPIC}-0", files, directory_id, plan.controller, now_ms)
        write_meta_properties(files, directory, MetaProperties(plan.cluster_id, plan.node_id, directory_id))


def _write_voters(
    plan: FormatPlan, directory: Path, files: Files, directory_id: UUID, controller: Listener, now_ms: int
) -> None:
    voter = VotersRecord.Voter(
        voter_id=plan.node_id,
        voter_directory_id=directory_id,
        endpoints=[VotersRecord.Endpoint(name=controller.name, host=controller.host, port=controller.port)],
        kraft_version_feature=VotersRecord.KRaftVersionFeature(
            min_supported_version=KRAFT_VERSION_LEVELS[0], max_supported_version=KRAFT_VERSION_LEVELS[-1]
        ),
    )
    snapshot = Snapshot([], now_ms, VoterSet(plan.levels[KRAFT_VERSION], VotersRecord(voters=[voter])))
    files.make_directory(directory)
    batches = encode_snapshot(snapshot, 0, plan.levels[METADATA_VERSION], now_ms)
    write_snapshot(files, directory / SnapshotId(0, 0).file_name, batches)


def cluster_of(directories: Sequence[Path], files: Files) -> str | None:
    """Return the cluster id of the first formatted directory, None if none is formatted.

    Raises:
        KafkaStorageError: `meta.properties` is damaged.
    """
    found = (read_meta_properties(files, directory) for directory in directories)
    return next((properties.cluster_id for properties in found if properties is not None), None)


def directories_of(config: BrokerConfig) -> tuple[tuple[Path, ...], Path]:
    """Return the data directories of a broker, sorted as in Kafka, and the one that has the metadata log."""
    own = config.text("metadata.log.dir")
    metadata = Path(own) if own else config.data_directories[0]
    return tuple(sorted({*config.data_directories, metadata})), metadata


@dataclass(frozen=True)
class DirectoryReport:
    """The lines that describe data directories, and whether they have problems."""

    lines: tuple[str, ...]
    has_problems: bool


def describe_directories(directories: Sequence[Path], files: Files) -> DirectoryReport:
    """Report which data directories exist, which cluster and node they belong to, and their problems.

    Parameters:
        directories: the data directories, in the order of the report.
    """
    found: list[Path] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    for directory in directories:
        if not files.is_directory(directory):
            problems.append(f"{directory} {'is not a directory' if files.exists(directory) else 'does not exist'}")
            continue
        found.append(directory)
        try:
            properties = read_meta_properties(files, directory)
        except (KafkaStorageError, OSError) as error:
            problems.append(f"Error loading {directory / META_PROPERTIES}: {error}")
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = properties
        elif first.cluster_id != properties.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif first.node_id != properties.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    lines = _section("Found log directory:", "Found log directories:", map(str, found))
    if first is not None:
        lines += [f"Found metadata: {{{', '.join(_shown(first))}}}", ""]
    lines += _section("Found problem:", "Found problems:", problems)
    return DirectoryReport(tuple(lines), bool(problems))


def _section(one: str, several: str, items: Sequence[str] | Iterator[str]) -> list[str]:
    shown = [f"  {item}" for item in items]
    return [one if len(shown) == 1 else several, *shown, ""] if shown else []


def _shown(properties: MetaProperties) -> Iterator[str]:
    yield f"cluster.id={properties.cluster_id}"
    if properties.directory_id is not None:
        yield f"directory.id={encode_uuid(properties.directory_id)}"
    yield f"node.id={properties.node_id}"
    yield "version=1"
