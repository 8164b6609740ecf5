"""The text files: what is written, what is read back, and what is refused."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kclient.errors import InconsistentClusterIdError, KafkaStorageError
from refbroker.log import Files
from refbroker.log import checkpoints as cp
from refbroker.log.leader_epochs import LeaderEpochCache
from refbroker.log.offset_checkpoints import LogState, OffsetCheckpoints
from tests.support.typed import reread

FILES = Files(durable=False)


def test_offsets_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    offsets = {("orders", 1): 0, ("orders", 0): 1500}
    cp.write_offsets(FILES, tmp_path / "c", offsets)
    assert (tmp_path / "c").read_text() == "0\n2\norders 0 1500\norders 1 0\n"
    assert cp.read_offsets(FILES, tmp_path / "c") == offsets
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize(
    "text", ["1\n0\n", "0\n2\norders 0 1\n", "0\n1\norders 0\n", "0\n1\norders zero 1\n", "0\nx\n"]
)
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").write_text(text)
    with pytest.raises(KafkaStorageError, match=str(tmp_path / "c")):
        cp.read_offsets(FILES, tmp_path / "c")


@pytest.mark.parametrize("name", [cp.RECOVERY_POINTS, cp.LOG_START_OFFSETS, cp.HIGH_WATERMARKS, cp.CLEANER_OFFSETS])
def test_whether_all_checkpoints_could_be_read_is_reported(tmp_path: Path, name: str) -> None:
    cp.write_offsets(FILES, tmp_path / name, {("orders", 0): 7})
    assert OffsetCheckpoints(FILES, tmp_path).read()
    (tmp_path / name).write_text("0\n2\norders 0 1\n")
    assert not OffsetCheckpoints(FILES, tmp_path).read()


def test_what_the_checkpoints_say_of_a_log(tmp_path: Path) -> None:
    names = (cp.RECOVERY_POINTS, cp.LOG_START_OFFSETS, cp.HIGH_WATERMARKS, cp.CLEANER_OFFSETS)
    for number, name in enumerate(names, 7):
        cp.write_offsets(FILES, tmp_path / name, {("orders", 0): number})
    checkpoints = OffsetCheckpoints(FILES, tmp_path)
    checkpoints.read()
    assert checkpoints.state_of(("orders", 0), clean=True) == LogState(True, 7, 8, 9, 10)
    assert checkpoints.state_of(("orders", 1), clean=False) == LogState(False, 0, 0, 0, None)


@pytest.mark.parametrize("text", [None, ""])
def test_a_checkpoint_that_is_not_there_or_empty_says_nothing(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "c").write_text(text)
    assert cp.read_offsets(FILES, tmp_path / "c") == {}


def test_ids_are_url_safe_base64_without_padding() -> None:
    value = uuid.UUID("ffffffff-ffff-4fff-bfff-fffffffffffe")
    assert cp.encode_uuid(value) == "________T_-__________g"
    assert cp.decode_uuid(cp.encode_uuid(value)) == value
    with pytest.raises(ValueError, match="not an id"):
        cp.decode_uuid("short")


def test_partition_metadata_carries_the_topic_id(tmp_path: Path) -> None:
    topic_id = uuid.UUID(int=77)
    assert cp.read_topic_id(FILES, tmp_path) is None
    cp.write_topic_id(FILES, tmp_path, topic_id)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAATQ"
    assert cp.read_topic_id(FILES, tmp_path) == topic_id
    (tmp_path / "partition.metadata").write_text("version: 0\n")
    with pytest.raises(KafkaStorageError, match="damaged"):
        cp.read_topic_id(FILES, tmp_path)


def test_meta_properties_are_read_as_java_writes_them(tmp_path: Path) -> None:
    text = "#\n#Sat Nov 21 10:33:01 UTC\nversion=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAATQ\nnode.id=3\ncluster.id=a\\:b\n"
    found = cp.MetaProperties.decode(text.encode(), tmp_path)
    assert found == cp.MetaProperties("a:b", 3, uuid.UUID(int=77))
    assert cp.MetaProperties.decode(found.encode(), tmp_path) == found
    with pytest.raises(KafkaStorageError, match="damaged"):
        cp.MetaProperties.decode(b"version=0\nbroker.id=1\n", tmp_path)


def test_a_directory_of_another_cluster_or_node_is_refused(tmp_path: Path) -> None:
    found = cp.MetaProperties("mine", 1, None)
    cp.check_owner(found, tmp_path, "mine", 1)
    with pytest.raises(InconsistentClusterIdError, match="belongs to the cluster mine, not to yours"):
        cp.check_owner(found, tmp_path, "yours", 1)
    with pytest.raises(InconsistentClusterIdError, match=r"belongs to node 1, not to node 2; use .* node.id=1"):
        cp.check_owner(found, tmp_path, "mine", 2)


def epochs(tmp_path: Path, *entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache(FILES, tmp_path / "leader-epoch-checkpoint")
    cache.read()
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


def test_epochs_are_kept_in_their_checkpoint(tmp_path: Path) -> None:
    cache = epochs(tmp_path, (0, 0), (0, 5), (3, 4711))
    assert cache.path.read_text() == "0\n2\n0 0\n3 4711\n"
    assert epochs(tmp_path).entries == cache.entries


def test_an_epoch_that_contradicts_later_ones_replaces_them(tmp_path: Path) -> None:
    assert epochs(tmp_path, (1, 10), (2, 20), (4, 40), (3, 15)).entries == ((1, 10), (3, 15))


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 20)), (2, (1, 20)), (3, (3, 40)), (4, (4, 100)), (5, (-1, -1))],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(tmp_path: Path, epoch: int, answer: tuple[int, int]) -> None:
    assert epochs(tmp_path, (1, 10), (3, 20), (4, 40)).end_offset_for(epoch, 100) == answer


def test_the_epoch_of_an_offset_is_the_one_it_was_written_in(tmp_path: Path) -> None:
    cache = epochs(tmp_path, (1, 10), (3, 20))
    assert [cache.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 99)] == [-1, 1, 1, 3, 3]


def test_epochs_are_cut_at_both_ends(tmp_path: Path) -> None:
    cache = epochs(tmp_path, (1, 0), (3, 20), (4, 40))
    cache.truncate_from_start(25)
    assert cache.entries == ((3, 25), (4, 40))
    cache.truncate_from_end(40)
    assert reread(cache.entries) == ((3, 25),)
    assert epochs(tmp_path).entries == ((3, 25),)
