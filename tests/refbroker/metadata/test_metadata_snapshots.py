"""Snapshots of the metadata: what is in them, when they are taken, how loading begins with one, and what goes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kclient.errors import KafkaStorageError
from kclient.protocol import Message
from kclient.protocol.log_records import decode_metadata_record
from kclient.protocol.messages.records.control import VotersRecord
from kclient.protocol.messages.records.metadata_log import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from kclient.records import read_batches
from refbroker.broker import CLEAN_SNAPSHOTS_MS, TAKE_SNAPSHOT_MS, Broker
from refbroker.config import BrokerConfig
from refbroker.log import Files, PartitionLog
from refbroker.metadata.control_records import VoterSet
from refbroker.metadata.image_records import image_records
from refbroker.metadata.snapshot_file import (
    Snapshot,
    SnapshotId,
    encode_snapshot,
    parse_file_name,
    read_snapshot,
    write_snapshot,
)
from refbroker.metadata.versions import LATEST
from refbroker.runtime.clock import Clock
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.refbroker.metadata.metadata_logs import image_of, state_of
from tests.support.broker_harness import START_MS, Harness

TOPIC, ACL = UUID(int=42), UUID(int=43)
FILES = Files(durable=False)


def quota(value: float, *, remove: bool = False) -> ClientQuotaRecord:
    entity = [
        ClientQuotaRecord.EntityData(entity_type="user", entity_name="alice"),
        ClientQuotaRecord.EntityData(entity_type="client-id", entity_name=None),
    ]
    return ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)


EVERYTHING: list[Message] = [
    FeatureLevelRecord(name="metadata.version", feature_level=LATEST),
    FeatureLevelRecord(name="group.version", feature_level=1),
    FeatureLevelRecord(name="kraft.version", feature_level=1),
    RegisterBrokerRecord(
        broker_id=7,
        broker_epoch=5,
        incarnation_id=UUID(int=9),
        end_points=[RegisterBrokerRecord.BrokerEndpoint(name="L", host="h", port=1, security_protocol=3)],
        features=[
            RegisterBrokerRecord.BrokerFeature(name="group.version", min_supported_version=0, max_supported_version=1)
        ],
        rack="r",
        log_dirs=[UUID(int=101)],
    ),
    BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=5, fenced=-1, log_dirs=[UUID(int=101), UUID(int=102)]),
    BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=5, cordoned_log_dirs=[UUID(int=102)]),
    RegisterControllerRecord(
        controller_id=7,
        incarnation_id=UUID(int=10),
        end_points=[RegisterControllerRecord.ControllerEndpoint(name="C", host="h", port=2)],
    ),
    TopicRecord(name="t", topic_id=TOPIC),
    PartitionRecord(
        partition_id=0,
        topic_id=TOPIC,
        replicas=[7, 8],
        isr=[7],
        leader=7,
        leader_epoch=3,
        partition_epoch=4,
        adding_replicas=[8],
        directories=[UUID(int=101), UUID(int=1)],
        eligible_leader_replicas=[8],
        last_known_elr=[8],
        leader_recovery_state=1,
    ),
    ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
    ConfigRecord(resource_type=16, resource_name="metrics", name="interval.ms", value="100"),
    quota(1024.5),
    ProducerIdsRecord(broker_id=7, broker_epoch=5, next_producer_id=3000),
    AccessControlEntryRecord(id=ACL, resource_type=2, resource_name="t", principal="User:bob", host="*", operation=3),
    UserScramCredentialRecord(name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096),
    DelegationTokenRecord(owner="User:a", requester="User:a", renewers=["User:b"], token_id="id", max_timestamp=9),
]


def metadata_log(harness: Harness) -> PartitionLog:
    log = harness.broker.logs.get("__cluster_metadata", 0)
    assert log is not None
    return log


def names(harness: Harness, suffix: str = ".checkpoint") -> list[str]:
    return sorted(path.name for path in metadata_log(harness).directory.glob(f"*{suffix}"))


# What is in one


def test_the_records_of_an_image_make_the_same_image() -> None:
    image = image_of(EVERYTHING)
    assert state_of(image_of(list(image_records(image)))) == state_of(image)
    # All of it is there, and kraft.version is no feature level.
    assert image.features == {"metadata.version": LATEST, "group.version": 1}
    for kept in (image.controllers, image.quotas, image.acls, image.scram, image.tokens):
        assert len(kept) == 1


def test_the_level_of_the_records_comes_first() -> None:
    first = next(image_records(image_of(EVERYTHING)))
    assert first == FeatureLevelRecord(name="metadata.version", feature_level=LATEST)


def test_what_nothing_acts_on_can_be_removed_again() -> None:
    image = image_of(EVERYTHING)
    for record in (
        quota(0, remove=True),
        RemoveAccessControlEntryRecord(id=ACL),
        RemoveUserScramCredentialRecord(name="alice", mechanism=1),
        RemoveDelegationTokenRecord(token_id="id"),
        ClearElrRecord(),
    ):
        image.replay(record)
    assert (image.quotas, image.acls, image.scram, image.tokens) == ({}, {}, {}, {})
    partition = image.topics["t"].partitions[0]
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])


def test_a_cluster_at_an_old_level_gets_no_records_it_cannot_have() -> None:
    image = image_of([*EVERYTHING, FeatureLevelRecord(name="metadata.version", feature_level=7)])
    records = list(image_records(image))
    kinds = {record.message_name for record in records}
    assert not kinds & {"RegisterControllerRecord", "UserScramCredentialRecord", "DelegationTokenRecord"}
    # What came later is omitted: directories, eligible leaders.
    data = b"".join(encode_snapshot(Snapshot(records), 1, 7, START_MS))
    values = [record.value for batch in read_batches(data) if not batch.is_control for record in batch.records()]
    decoded = [decode_metadata_record(value) for value in values]
    [partition] = [record for record in decoded if isinstance(record, PartitionRecord)]
    assert (partition.directories, partition.eligible_leader_replicas) == ([], None)
    assert (partition.replicas, partition.leader_epoch) == ([7, 8], 3)


def write(path: Path, snapshot: Snapshot, epoch: int = 3) -> Path:
    write_snapshot(FILES, path, encode_snapshot(snapshot, epoch, LATEST, START_MS))
    return path


def test_a_file_has_what_was_written_in_batches_of_moderate_size(tmp_path: Path) -> None:
    voters = VoterSet(1, VotersRecord(voters=[VotersRecord.Voter(voter_id=7, voter_directory_id=UUID(int=101))]))
    records: list[Message] = [TopicRecord(name=f"t{number}", topic_id=UUID(int=number)) for number in range(3000)]
    path = write(tmp_path / SnapshotId(5000, 3).file_name, Snapshot(records, 99, voters))
    assert read_snapshot(FILES, path) == Snapshot(records, 99, voters)
    assert [child.name for child in tmp_path.iterdir()] == ["00000000000000005000-0000000003.checkpoint"]


def test_names_of_snapshots_and_of_what_comes_before_and_after() -> None:
    found = SnapshotId(5000, 3)
    assert parse_file_name(found.file_name) == (found, ".checkpoint")
    assert parse_file_name("00000000000000005000-0000000003-123.checkpoint.part") == (found, ".checkpoint.part")
    assert parse_file_name("00000000000000005000-0000000003.checkpoint.deleted") == (found, ".checkpoint.deleted")
    assert parse_file_name("bootstrap.checkpoint") is None
    assert parse_file_name("leader-epoch-checkpoint") is None


@pytest.mark.parametrize("damage", ["a bit", "the end", "the footer", "the header", "something behind it", "all"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path / SnapshotId(50, 3).file_name, Snapshot(list(EVERYTHING)))
    batches = [bytes(batch) for batch in encode_snapshot(Snapshot(list(EVERYTHING)), 3, LATEST, START_MS)]
    data = bytearray(b"".join(batches))
    if damage == "a bit":
        data[len(data) // 2] ^= 1
    path.write_bytes(
        {
            "a bit": bytes(data),
            "the end": bytes(data[:-5]),
            "the footer": b"".join(batches[:-1]),
            "the header": b"".join(batches[1:]),
            "something behind it": bytes(data) + batches[1],
            "all": b"",
        }[damage]
    )
    with pytest.raises(KafkaStorageError, match=path.name):
        read_snapshot(FILES, path)


def test_a_disk_that_fills_up_leaves_nothing_half_written(tmp_path: Path) -> None:
    class Full(Files):
        def pwrite(self, *args: Any) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_snapshot(Full(durable=False), tmp_path / SnapshotId(1, 1).file_name, [b"x"])
    assert list(tmp_path.iterdir()) == []


# When they are taken


async def test_one_is_taken_when_there_are_enough_bytes_of_new_records(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "data", metadata_log_max_record_bytes_between_snapshots="1000")
    metadata = harness.broker.metadata
    await metadata.take_snapshot_if_due()
    assert names(harness) == []
    harness.create("a", 20)
    await metadata.take_snapshot_if_due()
    assert names(harness) == [SnapshotId(metadata.end_offset, 1).file_name]
    # Those bytes are counted off.
    harness.create("b")
    await metadata.take_snapshot_if_due()
    assert len(names(harness)) == 1
    harness.close()


async def test_one_is_taken_after_a_while_if_there_is_something_new(harness: Harness) -> None:
    metadata = harness.broker.metadata
    for expected in (0, 1, 1):
        await metadata.take_snapshot_if_due()
        assert len(names(harness)) == expected
        harness.clock.step(3_600_000)
    harness.create("a")
    await metadata.take_snapshot_if_due()
    assert len(names(harness)) == 2
    harness.clock.step(3_599_999)
    harness.create("b")
    await metadata.take_snapshot_if_due()
    assert len(names(harness)) == 2


async def test_an_interval_of_0_takes_none_by_time(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "data", metadata_log_max_snapshot_interval_ms="0")
    harness.clock.step(10**10)
    await harness.broker.metadata.take_snapshot_if_due()
    assert names(harness) == []
    harness.close()


async def test_changes_while_one_is_written_are_not_in_it(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.create("a", retention_ms="1")

    async def change_meanwhile(work: Any, *args: Any) -> Any:
        harness.create("b")
        change = ConfigRecord(resource_type=2, resource_name="a", name="retention.ms", value="2")
        harness.broker.controller.append([change])
        return work(*args)

    monkeypatch.setattr("refbroker.metadata.replica.in_thread", change_meanwhile)
    end = harness.broker.metadata.end_offset
    taken = await harness.broker.metadata.take_snapshot()
    assert taken.offset == end
    image = image_of(read_snapshot(FILES, metadata_log(harness).directory / taken.file_name).records)
    assert list(image.topics) == ["a"]
    assert image.config(2, "a") == {"retention.ms": "1"}


async def test_there_is_no_such_one_of_what_is_not_in_the_log_permanently(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    harness = Harness(tmp_path / "data", files=disk)
    disk.fail(operation="fsync")
    with pytest.raises(KafkaStorageError):
        harness.create("a")
    disk.heal()
    with pytest.raises(KafkaStorageError):
        await harness.broker.metadata.take_snapshot()
    assert names(harness) == []
    harness.close()


# Loading


@pytest.mark.parametrize("clean", [True, False])
async def test_a_restart_begins_with_the_newest_one_and_continues_with_the_log(harness: Harness, clean: bool) -> None:
    harness.broker.controller.append(EVERYTHING[10:])
    harness.create("a", 3, retention_ms="1000")
    await harness.broker.metadata.take_snapshot()
    harness.create("b")
    await harness.broker.metadata.take_snapshot()
    harness.create("c")
    expected = harness.broker.metadata.image
    before = {
        name: value for name, value in state_of(expected).items() if name not in ("brokers", "topics", "topics_by_id")
    }
    # Without the log before the snapshot, so that nothing can come from there.
    log = metadata_log(harness)
    log.roll()
    log.delete_records(int(names(harness)[-1][:20]))
    harness.restart(clean=clean)
    image = harness.broker.metadata.image
    assert list(image.topics) == ["a", "b", "c"]
    assert {name: value for name, value in state_of(image).items() if name in before} == before
    assert image.scram
    assert harness.broker.controller.epoch == 2


async def test_what_a_crash_left_half_done_is_removed_at_the_start(harness: Harness) -> None:
    await harness.broker.metadata.take_snapshot()
    directory = metadata_log(harness).directory
    kept = names(harness)
    (directory / "00000000000000000009-0000000001-4711.checkpoint.part").write_bytes(b"half")
    (directory / "00000000000000000001-0000000001.checkpoint.deleted").write_bytes(b"old")
    harness.restart(clean=False)
    assert names(harness, ".checkpoint*") == kept


async def test_a_damaged_newest_snapshot_stops_the_start_and_says_what_to_do(harness: Harness) -> None:
    await harness.broker.metadata.take_snapshot()
    [name] = names(harness)
    path = metadata_log(harness).directory / name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(KafkaStorageError, match="move it away"):
        harness.restart()
    # The log is still there from its beginning.
    path.unlink()
    harness.open()
    assert harness.broker.metadata.image.features


async def test_a_log_without_its_beginning_needs_a_snapshot(harness: Harness) -> None:
    harness.create("a")
    log = metadata_log(harness)
    log.roll()
    await harness.broker.metadata.take_snapshot()
    harness.create("b")
    log.delete_segments([log.segments[0]], "test")
    [name] = names(harness)
    (log.directory / name).unlink()
    with pytest.raises(KafkaStorageError, match=r"no snapshot that reaches to it; restore the newest \.checkpoint"):
        harness.restart()


async def test_a_log_that_ends_before_its_snapshot_is_not_complete(harness: Harness) -> None:
    log = metadata_log(harness)
    write(log.directory / SnapshotId(log.log_end_offset + 100, 1).file_name, Snapshot(list(EVERYTHING)))
    with pytest.raises(KafkaStorageError, match="before its snapshot"):
        harness.restart()


# Retention


async def grow(harness: Harness, topics: str) -> list[str]:
    """A segment and a snapshot for each of some topics; the names of the snapshots."""
    for name in topics:
        harness.create(name)
        harness.clock.step(1000)
        await harness.broker.metadata.take_snapshot()
        metadata_log(harness).roll()
    return names(harness)


@pytest.mark.parametrize("setting", ["bytes", "ms"])
async def test_old_snapshots_and_the_log_before_the_next_one_go(tmp_path: Path, setting: str) -> None:
    limit: dict[str, Any] = {f"metadata_max_retention_{setting}": "2500"}
    harness = Harness(tmp_path / "data", **limit)
    made = await grow(harness, "abcd")
    harness.broker.metadata.clean_snapshots()
    log = metadata_log(harness)
    kept = names(harness)
    assert 0 < len(kept) < len(made)
    assert kept == made[-len(kept) :]
    assert log.log_start_offset == int(kept[0][:20])
    # Segments that lie wholly before it are gone, and no other.
    bases = log.segments.base_offsets
    assert bases[0] <= log.log_start_offset
    assert all(base > log.log_start_offset for base in bases[1:])
    assert len(bases) == len(kept)
    assert names(harness, ".checkpoint.deleted") == [f"{name}.deleted" for name in made[: -len(kept)]]
    harness.clock.step(60_000)
    await harness.broker.logs.delete_due_files()
    assert names(harness, ".deleted") == []
    harness.restart()
    assert list(harness.broker.metadata.image.topics) == list("abcd")
    harness.close()


async def test_the_newest_snapshot_stays_however_little_is_allowed(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "data", metadata_max_retention_bytes="0", metadata_max_retention_ms="0")
    made = await grow(harness, "abc")
    harness.clock.step(10**9)
    harness.broker.metadata.clean_snapshots()
    assert names(harness) == made[-1:]
    harness.restart(clean=False)
    assert list(harness.broker.metadata.image.topics) == list("abc")
    harness.close()


async def test_without_limits_everything_stays(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "data", metadata_max_retention_bytes="-1", metadata_max_retention_ms="-1")
    made = await grow(harness, "abc")
    harness.clock.step(10**12)
    harness.broker.metadata.clean_snapshots()
    assert names(harness) == made
    assert metadata_log(harness).log_start_offset == 0
    harness.close()


async def test_the_background_takes_and_removes_snapshots(tmp_path: Path) -> None:
    clock = Clock()
    clock.hold(START_MS)
    settings = {
        "log.dirs": str(tmp_path / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "metadata.log.max.record.bytes.between.snapshots": "1",
        "metadata.max.retention.ms": "1000",
    }

    def count() -> int:
        return len(list((tmp_path / "data" / "__cluster_metadata-0").glob("*.checkpoint")))

    started = await Broker.start(BrokerConfig(settings), clock=clock, files=Files(durable=False))
    async with started as broker, asyncio.timeout(10):
        for expected in (1, 2):
            broker.parts.controller.append(
                [ConfigRecord(resource_type=4, resource_name="", name="a", value=f"{expected}")]
            )
            while count() < expected:
                clock.step(TAKE_SNAPSHOT_MS)
                await asyncio.sleep(0)
        while count() > 1:
            clock.step(CLEAN_SNAPSHOTS_MS)
            await asyncio.sleep(0)
