"""The disk of tests: what was flushed stays whatever the seed, what was not may be lost in any way; errors; space."""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from refbroker.testing.simulated_disk import SimulatedDisk
from refbroker.testing.unflushed import SECTOR

SEEDS = range(60)


def states_after(tmp_path: Path, work: Callable[[SimulatedDisk, Path], object]) -> list[dict[str, bytes]]:
    """The files of a directory after the same work and a power failure, with one seed after the other."""
    found = []
    for seed in SEEDS:
        directory = tmp_path / str(seed)
        directory.mkdir()
        disk = SimulatedDisk()
        work(disk, directory)
        disk.lose_unflushed(seed)
        found.append(contents(directory))
    return found


def contents(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def put(disk: SimulatedDisk, path: Path, data: bytes, position: int = 0, *, sync: bool = False) -> None:
    file = disk.open(path, create=True)
    disk.pwrite(file, [data], position)
    if sync:
        disk.fsync(file)
        disk.fsync_directory(path.parent)


def test_reads_give_the_newest_bytes_flushed_or_not(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    put(disk, tmp_path / "a", b"old", sync=True)
    put(disk, tmp_path / "a", b"new")
    assert disk.read_bytes(tmp_path / "a") == (tmp_path / "a").read_bytes() == b"new"


def test_what_was_flushed_stays_whatever_the_seed(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        put(disk, directory / "a", b"flushed" * 1000, sync=True)
        disk.make_directory(directory / "sub")
        disk.fsync_directory(directory)
        put(disk, directory / "sub" / "b", b"deeper", sync=True)

    for found in states_after(tmp_path, work):
        assert found == {"a": b"flushed" * 1000, "sub/b": b"deeper"}


def test_an_unflushed_append_is_kept_lost_torn_at_a_sector_or_zeros(tmp_path: Path) -> None:
    data = bytes(range(1, 256)) * 20

    def work(disk: SimulatedDisk, directory: Path) -> None:
        put(disk, directory / "a", b"x" * 100, sync=True)
        put(disk, directory / "a", data, 100)

    tails = {state["a"][100:] for state in states_after(tmp_path, work)}
    torn = {tail for tail in tails if tail not in (data, b"", b"\0" * len(data))}
    assert {data, b"", b"\0" * len(data)} < tails
    assert torn
    assert all(data.startswith(tail) and (100 + len(tail)) % SECTOR == 0 for tail in torn)


def test_an_unflushed_overwrite_leaves_old_bytes_new_ones_or_both(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        put(disk, directory / "a", b"o" * 2000, sync=True)
        put(disk, directory / "a", b"n" * 2000)

    found = {state["a"] for state in states_after(tmp_path, work)}
    assert found > {b"o" * 2000, b"n" * 2000}
    assert all(state == b"n" * state.count(b"n") + b"o" * state.count(b"o") for state in found)
    assert all(len(state) == 2000 for state in found)


def test_a_later_write_may_be_kept_without_an_earlier_one(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        put(disk, directory / "a", b"", sync=True)
        put(disk, directory / "a", b"one")
        put(disk, directory / "a", b"two", 3)

    found = {state["a"] for state in states_after(tmp_path, work)}
    assert {b"", b"one", b"onetwo", b"\0\0\0two"} <= found


def test_truncation_is_undone_with_what_it_cut_off(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        put(disk, directory / "a", b"abcdef", sync=True)
        file = disk.open(directory / "a")
        disk.truncate(file, 10 << 20)
        disk.fsync(file)
        disk.truncate(file, 2)

    found = {state["a"] for state in states_after(tmp_path, work)}
    assert found == {b"ab", b"abcdef" + b"\0" * ((10 << 20) - 6)}


def test_a_new_file_is_there_or_not_until_its_directory_is_flushed(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        disk.fsync(disk.open(directory / "a", create=True))

    assert {len(state) for state in states_after(tmp_path, work)} == {0, 1}


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        disk.write_bytes(directory / "a", b"old" * 1000)
        put(disk, directory / "a.tmp", b"new" * 1000, sync=True)
        disk.rename(directory / "a.tmp", directory / "a", sync=False)

    found = states_after(tmp_path, work)
    assert {"a": b"new" * 1000} in found
    assert {"a": b"old" * 1000, "a.tmp": b"new" * 1000} in found
    assert len({str(state) for state in found}) == 2


def test_removed_names_come_back_unless_the_directory_was_flushed(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        for name in ("a", "b"):
            put(disk, directory / name, name.encode(), sync=True)
        disk.unlink(directory / "a")
        disk.fsync_directory(directory)
        disk.unlink(directory / "b")

    found = states_after(tmp_path, work)
    assert {} in found
    assert {"b": b"b"} in found
    assert all("a" not in state for state in found)


def test_a_removed_tree_may_come_back_in_parts(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        disk.make_directory(directory / "t")
        disk.fsync_directory(directory)
        for name in ("a", "b"):
            put(disk, directory / "t" / name, name.encode(), sync=True)
        disk.rename(directory / "t", directory / "t-delete", sync=False)
        disk.remove_tree(directory / "t-delete")

    found = {tuple(state) for state in states_after(tmp_path, work)}
    assert {(), ("t/a", "t/b"), ("t-delete/a", "t-delete/b")} <= found
    assert any(len(names) == 1 for names in found)


def test_names_that_trade_places_are_all_kept_apart(tmp_path: Path) -> None:
    def work(disk: SimulatedDisk, directory: Path) -> None:
        for name in ("a", "b"):
            put(disk, directory / name, name.encode(), sync=True)
        for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
            disk.rename(directory / old, directory / new, sync=False)

    for state in states_after(tmp_path, work):
        assert set(state.values()) <= {b"a", b"b"}


def test_the_same_seed_leaves_the_same_files(tmp_path: Path) -> None:
    states = []
    for attempt in range(2):
        directory = tmp_path / str(attempt)
        directory.mkdir()
        disk, rng = SimulatedDisk(), random.Random(1)
        scramble(disk, directory, rng, {})
        disk.lose_unflushed(99)
        states.append(contents(directory))
    assert states[0] == states[1]


def scramble(disk: SimulatedDisk, directory: Path, rng: random.Random, flushed: dict[str, bytes]) -> None:
    """Work on a few files at random; `flushed` learns what must not be lost."""
    names = [f"f{number}" for number in range(4)]
    for _ in range(60):
        name = rng.choice(names)
        path = directory / name
        flushed.pop(name, None)
        action = rng.random()
        if action < 0.5:
            put(disk, path, rng.randbytes(rng.randrange(2000)), rng.randrange(1000))
        elif action < 0.6 and path.exists():
            disk.truncate(disk.open(path), rng.randrange(3000))
        elif action < 0.7:
            disk.unlink(path)
        elif action < 0.8 and path.exists():
            target = rng.choice(names)
            flushed.pop(target, None)
            disk.rename(path, directory / target, sync=rng.random() < 0.5)
        elif path.exists():
            disk.fsync(disk.open(path))
            disk.fsync_directory(directory)
            flushed[name] = path.read_bytes()


def test_whatever_is_done_what_was_flushed_and_left_alone_is_there(tmp_path: Path, rng: random.Random) -> None:
    disk = SimulatedDisk()
    for round_ in range(150):
        flushed: dict[str, bytes] = {}
        scramble(disk, tmp_path, rng, flushed)
        disk.lose_unflushed(rng.randrange(1 << 30))
        found = contents(tmp_path)
        assert {name: found.get(name) for name in flushed} == flushed, f"round {round_}"


def test_a_file_that_was_open_when_the_power_went_cannot_be_written_to(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    put(disk, tmp_path / "a", b"a", sync=True)
    file = disk.open(tmp_path / "a")
    disk.lose_unflushed(1)
    for attempt in (lambda: disk.pwrite(file, [b"x"], 0), lambda: disk.fsync(file), lambda: disk.truncate(file, 0)):
        with pytest.raises(OSError, match="power"):
            attempt()
    assert contents(tmp_path) == {"a": b"a"}
    put(disk, tmp_path / "a", b"b")


def test_what_is_written_while_a_flush_is_under_way_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    for seed in SEEDS:
        path = tmp_path / str(seed)
        disk = SimulatedDisk(durable=True)
        put(disk, path, b"", sync=True)
        file = disk.open(path)
        disk.pwrite(file, [b"before"], 0)
        flushing, written = threading.Event(), threading.Event()

        def fsync(_fd: int, flushing: threading.Event = flushing, written: threading.Event = written) -> None:
            flushing.set()
            assert written.wait(10)

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", fsync)
            thread = threading.Thread(target=disk.fsync, args=(file,))
            thread.start()
            assert flushing.wait(10)
            disk.pwrite(file, [b"after"], 6)
            written.set()
            thread.join()
        disk.lose_unflushed(seed)
        kept.append(path.read_bytes())
    assert {b"before", b"beforeafter"} <= set(kept)
    assert all(data.startswith(b"before") for data in kept)


def test_operations_fail_where_when_and_as_often_as_set(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    for name in ("a", "b"):
        put(disk, tmp_path / name, b"12345678", sync=True)
    a, b = disk.open(tmp_path / "a"), disk.open(tmp_path / "b")
    fault = disk.fail(path_prefix=tmp_path / "a", operation="write", after=1, count=2)
    disk.pwrite(b, [b"x"], 0)
    disk.pwrite(a, [b"x"], 0)
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            disk.pwrite(a, [b"yy"], 0)
        assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path / "a"))
    assert disk.pread(a, 8, 0) == b"x2345678"
    disk.pwrite(a, [b"z"], 0)
    assert fault.fired == 2


@pytest.mark.parametrize(
    ("operation", "attempt"),
    [
        ("open", lambda disk, path: disk.open(path / "a")),
        ("read", lambda disk, path: disk.read_bytes(path / "a")),
        ("write", lambda disk, path: disk.write_bytes(path / "b", b"b")),
        ("truncate", lambda disk, path: disk.truncate(disk.open(path / "a"), 1)),
        ("fsync", lambda disk, path: disk.fsync_directory(path)),
        ("list", lambda disk, path: disk.names(path)),
        ("make_directory", lambda disk, path: disk.make_directory(path / "d")),
        ("rename", lambda disk, path: disk.rename(path / "a", path / "b")),
        ("unlink", lambda disk, path: disk.unlink(path / "a")),
    ],
    ids=lambda value: value if isinstance(value, str) else "fails",
)
def test_every_operation_can_fail_and_leaves_the_file_as_it_was(
    tmp_path: Path, operation: str, attempt: Callable[[SimulatedDisk, Path], object]
) -> None:
    disk = SimulatedDisk()
    put(disk, tmp_path / "a", b"content", sync=True)
    disk.fail(operation=operation, error=errno.EROFS)  # type: ignore[arg-type]
    with pytest.raises(OSError) as caught:
        attempt(disk, tmp_path)
    assert caught.value.errno == errno.EROFS
    assert contents(tmp_path)["a"] == b"content"
    disk.heal()
    attempt(disk, tmp_path)


def test_an_operation_that_does_not_exist_cannot_fail() -> None:
    with pytest.raises(ValueError, match="fsync"):
        SimulatedDisk().fail(operation="flush")  # type: ignore[arg-type]


def test_a_full_disk_takes_what_fits_and_has_room_again_after_an_unlink(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    put(disk, tmp_path / "a", b"x" * 100, sync=True)
    disk.fill(10)
    put(disk, tmp_path / "a", b"y" * 100)
    file = disk.open(tmp_path / "b", create=True)
    with pytest.raises(OSError) as caught:
        disk.pwrite(file, [b"12345678", b"9abc"], 0)
    assert (caught.value.errno, disk.size(file)) == (errno.ENOSPC, 10)
    disk.unlink(tmp_path / "a")
    disk.pwrite(file, [b"9abc"], 8)
    assert disk.read_bytes(tmp_path / "b") == b"123456789abc"
    disk.heal()
    disk.pwrite(file, [b"x" * 1000], 0)


def test_growing_a_file_takes_no_space_until_it_is_written_to(tmp_path: Path) -> None:
    disk = SimulatedDisk()
    disk.fill(16)
    file = disk.open(tmp_path / "00000000000000000000.index", create=True)
    disk.truncate(file, 10 << 20)
    disk.pwrite(file, [b"12345678"], 0)
    disk.truncate(file, 8)
    disk.pwrite(file, [b"12345678"], 8)
    with pytest.raises(OSError, match="No space"):
        disk.pwrite(file, [b"1"], 16)
