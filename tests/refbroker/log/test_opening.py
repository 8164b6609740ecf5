"""Data directories that are opened together: which can be used, and whether they belong together."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from kclient.errors import InconsistentClusterIdError, KafkaStorageError
from refbroker.log import Files, LogManager
from refbroker.log.files import BytesLike, OpenFile
from refbroker.log.log_names import LogKind, log_name, parse_log_name
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.stores import TOPIC_ID, LedLogs, append, read_all


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    """Three data directories, with a log in each."""
    paths = [tmp_path / name for name in ("meta", "one", "two")]
    manager = LedLogs.open(paths, "cluster", 1)
    for partition, directory in enumerate(manager.directories):
        append(manager.create("orders", partition, TOPIC_ID, directory=directory), 3)
    manager.close()
    return paths


def open_and_close(paths: list[Path], disk: SimulatedDisk | None = None, cluster_id: str | None = None) -> LogManager:
    manager = LedLogs.open(paths, cluster_id, 1, files=disk)
    manager.close()
    return manager


def without_id(path: Path) -> None:
    properties = path / "meta.properties"
    lines = properties.read_text().splitlines()
    properties.write_text("\n".join(line for line in lines if not line.startswith("directory.id")) + "\n")


def test_each_directory_has_its_own_files_and_id(paths: list[Path]) -> None:
    files = {"meta.properties", ".lock", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"}
    ids = set()
    for path in paths:
        assert files <= {entry.name for entry in path.iterdir()}
        properties = dict(
            line.split("=") for line in (path / "meta.properties").read_text().splitlines() if "=" in line
        )
        assert properties["cluster.id"] == "cluster"
        ids.add(properties["directory.id"])
    assert len(ids) == 3
    assert (paths[1] / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 1 3\n"


def test_every_directory_is_locked(paths: list[Path]) -> None:
    manager = LedLogs.open(paths, None, 1)
    with pytest.raises(KafkaStorageError, match="two is in use by another broker"):
        LedLogs.open(paths[2:], None, 1)
    manager.close()
    open_and_close(paths)


@pytest.mark.parametrize("operation", ["open", "list", "read", "unlink"])
def test_a_directory_that_cannot_be_read_is_offline_and_the_others_are_used(
    paths: list[Path], disk: SimulatedDisk, operation: str
) -> None:
    disk.fail(path_prefix=paths[1], operation=operation)  # type: ignore[arg-type]
    manager = LedLogs.open(paths, None, 1, files=disk)
    assert [directory.is_online for directory in manager.directories] == [True, False, True]
    assert manager.get("orders", 1) is None
    log = manager.get("orders", 2)
    assert log is not None
    assert len(read_all(log)) == 3
    assert [directory.path.name for directory in manager.online] == ["meta", "two"]
    manager.close()
    disk.heal()
    again = LedLogs.open(paths, None, 1, files=disk)
    found = again.get("orders", 1)
    assert found is not None
    assert len(read_all(found)) == 3
    again.close()


def test_a_path_that_is_no_directory_is_offline(paths: list[Path]) -> None:
    shutil.rmtree(paths[2])
    paths[2].write_text("")
    manager = open_and_close(paths)
    assert [directory.is_online for directory in manager.directories] == [True, True, False]


def test_a_damaged_meta_properties_takes_its_directory_offline(paths: list[Path]) -> None:
    (paths[1] / "meta.properties").write_text("version=17\n")
    manager = open_and_close(paths)
    assert [directory.is_online for directory in manager.directories] == [True, False, True]


def test_without_the_metadata_directory_there_is_no_start(paths: list[Path], disk: SimulatedDisk) -> None:
    disk.fail(path_prefix=paths[0])
    with pytest.raises(KafkaStorageError, match=r"cannot start without its metadata log: could not open .*meta"):
        LedLogs.open(paths, None, 1, files=disk)
    disk.heal()
    open_and_close(paths)


def test_a_directory_that_is_given_twice_is_refused(paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(paths[1])
    for again in (paths[1], tmp_path / "link"):
        with pytest.raises(KafkaStorageError, match=r"is given twice in log.dirs"):
            LedLogs.open([*paths, again], None, 1)


def test_no_directory_at_all_is_refused() -> None:
    with pytest.raises(KafkaStorageError, match="at least one data directory"):
        LedLogs.open([], None, 1)


@pytest.mark.parametrize("index", [0, 1])
def test_a_directory_without_meta_properties_beside_used_ones_is_refused(paths: list[Path], index: int) -> None:
    # An unmounted disk looks like that.
    shutil.rmtree(paths[index])
    with pytest.raises(KafkaStorageError, match=f"no meta.properties in {paths[index]}.*is its disk mounted"):
        LedLogs.open(paths, None, 1)
    assert not (paths[index] / "meta.properties").exists()
    # The way out that the message names.
    shutil.copy(paths[2] / "meta.properties", paths[index])
    without_id(paths[index])
    assert all(directory.is_online for directory in open_and_close(paths).directories)


def test_a_formatting_that_was_interrupted_continues(tmp_path: Path, disk: SimulatedDisk) -> None:
    paths = [tmp_path / name for name in ("meta", "one", "two")]
    disk.fail(path_prefix=paths[0] / "meta.properties")
    with pytest.raises(KafkaStorageError, match="cannot start without its metadata log"):
        LedLogs.open(paths, None, 1, files=disk)
    disk.heal()
    assert (paths[1] / "meta.properties").exists()
    manager = open_and_close(paths, disk)
    assert len({directory.properties.cluster_id for directory in manager.directories if directory.properties}) == 1


def test_two_directories_with_the_same_id_are_refused(paths: list[Path]) -> None:
    shutil.copy(paths[1] / "meta.properties", paths[2] / "meta.properties")
    with pytest.raises(KafkaStorageError, match=r"one and .*two have the same directory.id"):
        LedLogs.open(paths, None, 1)


def test_a_reserved_id_is_refused(paths: list[Path]) -> None:
    without_id(paths[1])
    with open(paths[1] / "meta.properties", "a") as properties:
        properties.write("directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n")
    with pytest.raises(KafkaStorageError, match="which is reserved"):
        LedLogs.open(paths, None, 1)


def test_a_directory_of_another_cluster_or_node_is_refused(paths: list[Path]) -> None:
    properties = paths[2] / "meta.properties"
    text = properties.read_text()
    properties.write_text(text.replace("cluster.id=cluster", "cluster.id=other"))
    with pytest.raises(InconsistentClusterIdError, match="two belongs to the cluster other"):
        LedLogs.open(paths, None, 1)
    properties.write_text(text.replace("node.id=1", "node.id=2"))
    with pytest.raises(InconsistentClusterIdError, match="two belongs to node 2"):
        LedLogs.open(paths, None, 1)


def test_a_metadata_log_in_another_directory_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("meta", "one")]
    manager = LedLogs.open(paths, None, 1)
    manager.create("__cluster_metadata", 0, uuid.UUID(int=1))
    manager.close()
    with pytest.raises(KafkaStorageError, match=r"there is a metadata log in .*meta, but it is looked for in .*one"):
        LedLogs.open(paths[::-1], None, 1)


# Two logs of one partition


@pytest.fixture
def doubled(paths: list[Path]) -> list[Path]:
    """As a crash in the middle of a move leaves it: partition 1 is in two directories."""
    shutil.copytree(paths[1] / "orders-1", paths[2] / "orders-1")
    return paths


def test_of_two_logs_the_one_is_kept_that_the_metadata_names(doubled: list[Path]) -> None:
    manager = LedLogs.open(doubled, None, 1)
    wanted = manager.directories[2]
    manager.settle(lambda log: wanted.directory_id)
    assert manager.directory_of("orders", 1) is wanted
    assert manager.get(TOPIC_ID, 1) is wanted.logs["orders", 1]
    assert [entry.name.split(".")[0] for entry in doubled[1].glob("*-stray")] == ["orders-1"]
    manager.close()
    again = LedLogs.open(doubled, None, 1)
    assert again.directory_of("orders", 1) is again.directories[2]
    again.close()


def test_of_two_logs_the_longer_one_is_kept_whatever_the_metadata_names(doubled: list[Path]) -> None:
    # A promotion failed half-way, and the old log was written further.
    manager = LedLogs.open(doubled, None, 1)
    longer, named = manager.directories[1:]
    append(longer.logs["orders", 1])
    manager.settle(lambda log: named.directory_id if log.partition == 1 else manager.directories[0].directory_id)
    assert manager.directory_of("orders", 1) is longer
    assert len(list(doubled[2].glob("orders-1.*-stray"))) == 1
    manager.close()


def test_two_logs_of_which_the_metadata_names_none_are_refused(doubled: list[Path]) -> None:
    manager = LedLogs.open(doubled, None, 1)
    with pytest.raises(KafkaStorageError, match=r"there are two logs of it, in .*one and in .*two"):
        manager.settle(lambda log: manager.directories[0].directory_id)
    manager.abandon()


def test_logs_of_partitions_the_broker_does_not_have_are_set_aside(paths: list[Path]) -> None:
    manager = LedLogs.open(paths, None, 1)
    manager.settle(lambda log: None if log.partition == 1 else manager.directories[log.partition].directory_id)
    assert sorted(log.partition for log in manager.logs()) == [0, 2]
    (stray,) = paths[1].glob("*-stray")
    assert len((stray / f"{0:020d}.log").read_bytes()) > 0
    manager.close()


# Names


@pytest.mark.parametrize("kind", list(LogKind))
@pytest.mark.parametrize("topic", ["orders", "a.b-1.c_d", "x-0.y-future"])
def test_a_directory_name_identifies_its_partition(topic: str, kind: LogKind) -> None:
    assert parse_log_name(log_name(topic, 7, kind)) == (topic, 7, kind)


@pytest.mark.parametrize("kind", [LogKind.DELETE, LogKind.STRAY])
def test_names_fit_into_a_directory(kind: LogKind) -> None:
    assert len(log_name("t" * 249, 1234, kind)) == 255


@pytest.mark.parametrize("name", ["photos", "remote-log-index-cache", "orders", "orders-x", "-0", "orders-0.-delete"])
def test_other_names_are_no_logs(name: str) -> None:
    assert parse_log_name(name) is None


class InterruptedFiles(Files):
    """Ctrl-C comes as soon as something is written."""

    def pwrite(self, file: OpenFile, parts: Sequence[BytesLike], position: int) -> int:
        raise KeyboardInterrupt


def test_an_interrupted_start_releases_the_directories(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        LedLogs.open([tmp_path], "cluster", 1, files=InterruptedFiles())
    open_and_close([tmp_path])
