"""Data directories: who owns them, what is in them, and how they are left."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from kclient.errors import (
    InconsistentClusterIdError,
    KafkaStorageError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from refbroker.log import LogManager
from refbroker.log.checkpoints import decode_uuid
from tests.support.stores import SMALL, TOPIC_ID, PowerlessStore, Store, append, read_all


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


def test_a_new_directory_is_formatted(store: Store) -> None:
    manager = store.open()
    text = (store.directory / "meta.properties").read_text()
    values = dict(line.split("=") for line in text.splitlines() if "=" in line)
    assert (values["version"], values["cluster.id"], values["node.id"]) == ("1", "cluster", "1")
    assert decode_uuid(values["directory.id"]) == manager.directories[0].directory_id


def test_without_a_cluster_id_the_one_on_disk_is_taken_or_a_new_one(tmp_path: Path) -> None:
    first = LogManager.open([tmp_path / "a", tmp_path / "b"], None, 1)
    first.close()
    again = LogManager.open([tmp_path / "a", tmp_path / "b"], None, 1)
    assert len(decode_uuid(first.cluster_id).bytes) == 16
    assert again.cluster_id == first.cluster_id
    assert again.directories[0].directory_id != again.directories[1].directory_id
    again.close()
    with pytest.raises(InconsistentClusterIdError, match="belongs to the cluster"):
        LogManager.open([tmp_path / "b"], "another", 1)
    with pytest.raises(InconsistentClusterIdError, match="belongs to node 1"):
        LogManager.open([tmp_path / "b"], None, 2)


def test_a_log_has_kafkas_files(store: Store) -> None:
    append(store.log())
    stem = f"{0:020d}"
    files = {f"{stem}.log", f"{stem}.index", f"{stem}.timeindex", "partition.metadata", "leader-epoch-checkpoint"}
    assert names(store.path) == files
    store.close()
    assert names(store.path) == {*files, f"{1:020d}.snapshot"}
    assert names(store.directory) == {
        "orders-0", "meta.properties", ".lock", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint", "replication-offset-checkpoint",
    }  # fmt: skip
    assert (store.directory / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert (store.directory / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"


def test_logs_are_found_by_name_and_by_id(store: Store) -> None:
    log = store.log()
    assert store.manager is not None
    assert store.manager.get("orders", 0) is store.manager.get(TOPIC_ID, 0) is log
    assert store.manager.get("orders", 1) is None
    assert store.manager.get(uuid.UUID(int=0), 0) is None
    with pytest.raises(TopicExistsError):
        store.manager.create("orders", 0, TOPIC_ID)
    log = store.reopened()
    assert log.topic_id == TOPIC_ID
    assert store.manager.get(TOPIC_ID, 0) is log


def test_a_log_without_topic_id_gets_it_from_the_metadata(store: Store) -> None:
    manager = store.open()
    log = manager.create("old", 0, uuid.UUID(int=0))
    manager.set_topic_ids({"old": TOPIC_ID, "unknown": uuid.UUID(int=9)})
    assert manager.get(TOPIC_ID, 0) is log
    store.close()
    again = store.open().get(TOPIC_ID, 0)
    assert again is not None
    assert again.topic == "old"


def test_the_mark_of_a_clean_stop_is_gone_as_soon_as_the_logs_are_open(store: Store) -> None:
    store.log()
    store.close()
    assert (store.directory / ".kafka_cleanshutdown").exists()
    store.open()
    assert not (store.directory / ".kafka_cleanshutdown").exists()


def test_the_broker_epoch_of_the_last_clean_stop_is_known_after_a_start(tmp_path: Path) -> None:
    def start() -> LogManager:
        return LogManager.open([tmp_path / "a", tmp_path / "b"], "cluster", 1)

    manager = start()
    assert manager.previous_broker_epoch == -1
    manager.close(77)
    manager = start()
    assert manager.previous_broker_epoch == 77
    manager.close(78)
    mark = tmp_path / "b" / ".kafka_cleanshutdown"
    mark.write_text('{"version":0,"brokerEpoch":70}')
    manager = start()
    assert manager.previous_broker_epoch == -1
    manager.close(79)
    mark.write_bytes(b"")
    manager = start()
    assert (manager.previous_broker_epoch, manager.directories[1].clean) == (-1, True)
    manager.close()


def test_a_directory_is_used_by_one_broker_at_a_time(store: Store) -> None:
    store.open()
    with pytest.raises(KafkaStorageError, match=f"{store.directory} is in use by another broker"):
        LogManager.open([store.directory], "cluster", 1)
    store.close()
    LogManager.open([store.directory], "cluster", 1).close()


def test_a_directory_is_refused_to_a_second_process(store: Store) -> None:
    store.open()
    program = f"from refbroker.log import LogManager; LogManager.open([{str(store.directory)!r}], None, 1)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "is in use by another broker" in done.stderr


def test_logs_spread_over_the_directories(store: Store) -> None:
    paths = [store.root / "one", store.root / "two"]
    manager = store.open(paths=paths)
    for partition in range(6):
        append(manager.create("spread", partition, TOPIC_ID), 2)
    assert [len(directory.logs) for directory in manager.directories] == [3, 3]
    store.close()
    manager = store.open(paths=paths)
    assert sorted(log.partition for log in manager.logs()) == list(range(6))
    assert all(len(read_all(log)) == 2 for log in manager.logs())


def test_a_close_that_fails_closes_every_directory_and_raises_the_first_error(tmp_path: Path) -> None:
    store = PowerlessStore(tmp_path)
    paths = [tmp_path / "one", tmp_path / "two", tmp_path / "three"]
    manager = store.open(paths=paths)
    for partition in range(3):
        append(manager.create("spread", partition, TOPIC_ID))
    for path in paths[:2]:
        store.power.fail(path_prefix=path, operation="fsync")
    with pytest.raises(KafkaStorageError, match=f"{paths[0]}/"):
        store.close()
    assert [(path / ".kafka_cleanshutdown").exists() for path in paths] == [False, False, True]
    store.power.heal()
    assert len(list(store.open(paths=paths).logs())) == 3
    store.crash()


def test_the_same_log_in_two_directories_is_refused(store: Store) -> None:
    paths = [store.root / "one", store.root / "two"]
    for path in paths:
        store.open(paths=[path]).create("twice", 0, TOPIC_ID)
        store.close()
    (paths[1] / "meta.properties").write_text(
        (paths[1] / "meta.properties").read_text().replace("directory.id", "#directory.id")
    )
    manager = store.open(paths=paths)
    with pytest.raises(KafkaStorageError, match="there are two logs of it"):
        manager.settle(lambda log: uuid.UUID(int=4711))
    store.crash()
    LogManager.open([paths[0]], "cluster", 1).close()


def test_a_deleted_log_is_gone_and_its_successor_starts_at_zero(store: Store) -> None:
    log = store.log()
    append(log, 5)
    log.delete_records(5)
    assert store.manager is not None
    store.manager.checkpoint()
    store.manager.delete(("orders", 0))
    assert store.manager.get(TOPIC_ID, 0) is None
    assert "orders-0" not in names(store.directory)
    with pytest.raises(UnknownTopicOrPartitionError):
        store.manager.delete(("orders", 0))
    log = store.log()
    assert append(log).base_offset == 0
    assert store.reopened(clean=False).log_start_offset == 0


@pytest.mark.asyncio
async def test_a_log_whose_removal_was_interrupted_is_removed_after_the_next_start(store: Store) -> None:
    store.log()
    store.close()
    store.path.rename(store.directory / f"orders-0.{uuid.uuid4().hex}-delete")
    manager = store.open()
    assert manager.logs() == []
    store.clock.step(SMALL.file_delete_delay_ms)
    await manager.delete_due_files()
    assert not [name for name in names(store.directory) if name.endswith("-delete")]


def test_a_directory_that_is_no_log_is_left_alone(store: Store) -> None:
    store.log()
    store.close()
    foreign = store.directory / "photos-not-to-delete"
    foreign.mkdir()
    store.open()
    assert foreign.is_dir()


def test_the_metadata_log_is_kept_out_of_the_checkpoints(store: Store) -> None:
    manager = store.open()
    append(manager.create("__cluster_metadata", 0, uuid.UUID(int=1)), 3)
    append(store.log())
    store.close()
    assert (store.directory / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    metadata = store.open().get("__cluster_metadata", 0)
    assert metadata is not None
    assert metadata.log_end_offset == 3


def test_a_damaged_checkpoint_costs_time_but_no_data(store: Store) -> None:
    append(store.log(), 5)
    store.close()
    (store.directory / "recovery-point-offset-checkpoint").write_text("nonsense")
    assert len(read_all(store.log())) == 5


def test_topics_with_long_names_can_be_deleted(store: Store) -> None:
    manager = store.open()
    topic = "t" * 249
    manager.create(topic, 0, TOPIC_ID)
    manager.delete((topic, 0))
    assert manager.logs() == []


def test_many_logs_are_recovered_at_once(store: Store) -> None:
    manager = store.open()
    for number in range(20):
        log = manager.create("many", number, TOPIC_ID)
        for _ in range(number):
            append(log, 2)
    store.crash()
    with open(store.directory / "many-7" / "00000000000000000000.log", "ab") as torn:
        torn.write(b"torn")
    opened = LogManager.open(
        [store.directory], "cluster", 1, SMALL, clock=store.clock, files=store.disk, recovery_threads=4
    )
    store.manager = opened
    assert [found.log_end_offset for found in sorted(opened.logs(), key=lambda log: log.partition)] == [
        2 * number for number in range(20)
    ]


def test_a_log_that_was_never_written_to_costs_no_flush_after_a_crash(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = store.open()
    for number in range(5):
        manager.create("many", number, TOPIC_ID)
    store.crash()
    flushed: list[str] = []
    monkeypatch.setattr(store.disk, "fsync", lambda file: flushed.append(file.path.name))
    monkeypatch.setattr(store.disk, "fsync_directory", lambda path: flushed.append(path.name))
    assert len(store.open().logs()) == 5
    assert flushed == ["data"], "the mark of the clean stop alone"
