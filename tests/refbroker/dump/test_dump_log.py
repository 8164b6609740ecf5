"""dump-log prints valid files, and continues past damaged ones without allocating the sizes that they claim."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from kclient.records import BatchBuilder
from refbroker.__main__ import main
from refbroker.log.checkpoints import encode_table
from refbroker.log.producer_snapshot import encode_snapshot
from refbroker.log.producer_state import BatchMetadata, ProducerEntry

BASE = f"{5:020d}"


def batch(base: int, compression: str = "none") -> bytes:
    builder = BatchBuilder(compression)
    for index in range(3):
        builder.append(1000 + base + index, b"key", b"value" * 20, [("h", None)])
    return bytes(builder.build(base_offset=base, producer_id=7, producer_epoch=0, base_sequence=base))


def contents() -> dict[str, bytes]:
    """A whole file of every kind."""
    log = batch(5) + batch(8, "gzip") + batch(11, "zstd")
    producer = ProducerEntry(7, 0, last_timestamp=1013)
    producer.batches.append(BatchMetadata(13, 13, 2, 1013))
    return {
        f"{BASE}.log": log,
        f"{BASE}.index": struct.pack(">ii", 2, 0) + bytes(16),
        f"{BASE}.timeindex": struct.pack(">qi", 1007, 2) + bytes(24),
        f"{BASE}.txnindex": struct.pack(">hqqqq", 0, 7, 5, 7, 8),
        f"{BASE}.snapshot": encode_snapshot([producer]),
        f"{BASE}-0000000002.checkpoint": log,
        "bootstrap.checkpoint": log,
        "recovery-point-offset-checkpoint": encode_table([("orders", 0, 14)]),
        "leader-epoch-checkpoint": encode_table([(0, 5)]),
        "meta.properties": b"#\ncluster.id=abc\nversion=1\nnode.id=1\n",
        "partition.metadata": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        ".kafka_cleanshutdown": b'{"version":0,"brokerEpoch":5}',
        "quorum-state": b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"data_version":0}',
    }


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_every_kind_of_file_in_a_folder_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = contents()
    (write(tmp_path, files) / ".lock").write_bytes(b"")
    assert main(["dump-log", str(tmp_path), "--records"]) == 0
    said = capsys.readouterr()
    assert [line.rpartition("/")[2] for line in said.out.splitlines() if line.startswith("Dumping ")] == sorted(files)
    for line in (
        "offset: 7 position: 0",
        "timestamp: 1007 offset: 7",
        "topic: orders partition: 0 offset: 14",
        "leaderEpoch: 0 startOffset: 5",
        "version: 0 topic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        "cluster.id: abc version: 1 node.id: 1",
        "version: 0 brokerEpoch: 5",
        "leaderId: 1 leaderEpoch: 2 votedId: -1 data_version: 0",
        "Snapshot end offset: 5, epoch: 2",
        "KRaft bootstrap snapshot",
    ):
        assert line in said.out.splitlines()
    assert said.err.count("-1 is followed by 5") == 3


def test_json_output_has_one_object_per_line_with_the_same_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, contents())
    assert main(["dump-log", str(tmp_path), "--records", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {Path(line["file"]).name for line in lines} == set(contents())
    record = next(line for line in lines if line.get("offset") == 8 and "key" in line)
    assert (record["key"], record["headerKeys"], record["sequence"]) == ("key", ["h"], 8)
    assert next(line for line in lines if "deleteHorizonMs" in line)["deleteHorizonMs"] is None


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_files_with_temporary_suffixes_are_read_like_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    kinds = ("log", "index", "timeindex", "txnindex", "snapshot")
    for name in (f"{BASE}.{kind}" for kind in kinds):
        (tmp_path / name).write_bytes(contents()[name])
    assert main(["dump-log", str(tmp_path)]) == 0
    plain = capsys.readouterr().out
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name + suffix))
    assert main(["dump-log", str(tmp_path)]) == 0
    assert capsys.readouterr().out.replace(suffix, "") == plain


@pytest.mark.parametrize("name", sorted(contents()))
def test_no_file_contents_raise_an_unexpected_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rng: random.Random, name: str
) -> None:
    write(tmp_path, contents())
    whole = contents()[name]
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(rng.choice((0, 1, 1, 4))):
            data[rng.randrange(len(data))] = rng.choice((0, 0x7F, 0xFF, rng.randrange(256)))
        if rng.random() < 0.4:
            data = data[: rng.randrange(len(data))]
        if rng.random() < 0.3:
            data += rng.choice((bytes(40), b"\xff" * 40, rng.randbytes(40)))
        (tmp_path / name).write_bytes(data)
        options = rng.choice(([], ["--records"], ["--index-sanity-check"], ["--json", "--offsets-decoder"]))
        assert main(["dump-log", str(tmp_path / name), *options]) in (0, 1)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
    (tmp_path / name).write_bytes(whole)
    assert main(["dump-log", str(tmp_path / name)]) == 0


def huge(length: int = 2**31 - 1, count: int = 3) -> bytes:
    data = bytearray(batch(5))
    struct.pack_into(">i", data, 8, length)
    struct.pack_into(">i", data, 57, count)
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        (f"{BASE}.log", huge(), "invalid bytes at the end"),
        (f"{BASE}.log", huge(length=len(batch(5)) - 12, count=2**31 - 1), "is malformed"),
        (f"{BASE}.snapshot", struct.pack(">hIi", 1, 0, 2**31 - 1), "checksum"),
        ("leader-epoch-checkpoint", b"0\n2000000000\n", "damaged"),
    ],
    ids=["batch length", "record count", "producers in a snapshot", "epochs in a checkpoint"],
)
def test_the_size_that_a_batch_claims_is_not_allocated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(data)
    main(["dump-log", str(tmp_path / name), "--records"])
    capsys.readouterr()
    tracemalloc.start()
    try:
        assert main(["dump-log", str(tmp_path / name), "--records"]) == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    said = capsys.readouterr()
    assert says in said.out + said.err
    assert peak < 8 << 20


def test_missing_files_and_empty_folders_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / f"{5:020d}.log"
    assert main(["dump-log", str(missing)]) == 1
    assert capsys.readouterr() == ("", f"refbroker: {missing} does not exist\n")
    assert main(["dump-log", str(tmp_path)]) == 0
    assert capsys.readouterr() == ("", f"refbroker: {tmp_path} contains no file that a broker writes\n")


def test_a_checkpoint_above_the_size_limit_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(tmp_path / "meta.properties", "wb") as file:
        file.truncate(1 << 40)
    assert main(["dump-log", str(tmp_path / "meta.properties")]) == 1
    assert "that are possible for its kind" in capsys.readouterr().err


def test_a_damaged_file_does_not_hide_the_next_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = tmp_path / f"{5:020d}.log", tmp_path / f"{8:020d}.log"
    bad.write_bytes(batch(5) + bytes(100))
    good.write_bytes(batch(8))
    assert main(["dump-log", "--files", f"{bad},{good}"]) == 1
    said = capsys.readouterr()
    assert said.out.count("isvalid: true") == 2
    assert said.err.startswith(f"refbroker: {bad}: no record batch at position {len(batch(5))}")


def test_a_damaged_batch_does_not_hide_the_next_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(batch(5) + batch(8))
    data[61] = 0xFF
    log = tmp_path / f"{5:020d}.log"
    log.write_bytes(data)
    assert main(["dump-log", str(log)]) == 1
    assert [line[-5:] for line in capsys.readouterr().out.splitlines()[2:]] == ["false", " true"]
    assert main(["dump-log", str(log), "--records"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[3] == "| the record batch at offset 5 to 7 is corrupt: record 0 of 3 is malformed"
    assert len(said) == 8


@pytest.mark.parametrize(
    ("bases", "status"), [((5, 8, 11), 0), ((5, 20), 0), ((5, 5), 1)], ids=["in order", "with a gap", "going back"]
)
def test_decreasing_offsets_are_errors_and_gaps_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bases: tuple[int, ...], status: int
) -> None:
    log = tmp_path / f"{5:020d}.log"
    log.write_bytes(b"".join(map(batch, bases)))
    assert main(["dump-log", str(log), "--deep-iteration"]) == status
    assert capsys.readouterr().err.count("is followed by") == (1 if len(bases) == 3 else 2)


@pytest.mark.parametrize("name", ["what.log", "123x.index", ".log", f"{2**63}.log", "5.checkpoint"])
def test_a_file_name_without_an_offset_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_bytes(b"")
    assert main(["dump-log", str(tmp_path / name)]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
