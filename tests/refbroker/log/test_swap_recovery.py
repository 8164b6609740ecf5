"""What a start makes of segments that were on their way in or out."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from refbroker.log.swap_recovery import finish_swaps
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.stores import Store
from tests.support.workshop import COMPACTED, Kept, batches, clean, put, records

KINDS = ("log", "index", "timeindex")


class Room:
    """A log of segments 0, 10 and 20 before and after compaction into segment 0, and a directory to mix them in."""

    def __init__(self, store: Store) -> None:
        self.store = store
        log = store.log(COMPACTED)
        for base in (0, 10, 20):
            for number in range(10):
                put(log, (b"%d" % (number % 3), b"%d" % (base + number)))
            log.roll()
        log.flush()
        self.dirty = records(log)
        self.old = self._copy("old")
        clean(store, log)
        assert log.segments.base_offsets == [0, 30]
        store.close()
        self.new = store.root / "new"
        shutil.copytree(store.path, self.new)
        for path in self.new.glob("*.deleted"):
            path.unlink()
        self.place("old")

    def _copy(self, name: str) -> Path:
        shutil.copytree(self.store.path, self.store.root / name)
        return self.store.root / name

    def place(self, which: str) -> None:
        """Make the log what it was before compaction."""
        shutil.rmtree(self.store.path)
        shutil.copytree(self.store.root / which, self.store.path)

    def add(self, kind: str, suffix: str, base: int = 0) -> None:
        """Put a file of the compacted segment beside the log's."""
        name = f"{base:020d}.{kind}"
        shutil.copy(self.new / name, self.store.path / (name + suffix))

    def remove(self, kind: str, base: int) -> None:
        (self.store.path / f"{base:020d}.{kind}").unlink()

    def start(self) -> list[Kept]:
        """The records of the log after a start; nothing else may be left."""
        log = self.store.log(COMPACTED)
        assert not [name for name in self.store.disk.names(self.store.path) if name.endswith((".swap", ".cleaned"))]
        assert all(header.is_valid() for header in batches(log))
        found = records(log)
        self.store.crash()
        return found

    @property
    def cleaned(self) -> list[Kept]:
        return [kept for kept in self.dirty if kept.offset >= 27]


@pytest.fixture
def room(store: Store) -> Room:
    return Room(store)


def test_the_fixture_has_what_the_tests_need(room: Room) -> None:
    assert room.start() == room.dirty
    log_bytes = (room.new / f"{0:020d}.log").read_bytes()
    assert 0 < len(log_bytes) < sum(path.stat().st_size for path in room.old.glob("*.log"))


def test_a_segment_that_was_not_finished_is_removed(room: Room) -> None:
    for kind in KINDS:
        room.add(kind, ".cleaned")
    assert room.start() == room.dirty


@pytest.mark.parametrize("renamed", [1, 2])
def test_a_segment_that_was_being_renamed_to_swap_is_not_finished(room: Room, renamed: int) -> None:
    for number, kind in enumerate(KINDS):
        room.add(kind, ".swap" if number < renamed else ".cleaned")
    assert room.start() == room.dirty


def test_a_finished_segment_takes_the_place_of_those_it_was_made_of(room: Room) -> None:
    for kind in KINDS:
        room.add(kind, ".swap")
    assert room.start() == room.cleaned


@pytest.mark.parametrize("gone", range(1, 9))
def test_it_does_so_whichever_of_their_files_are_gone_already(room: Room, gone: int) -> None:
    for kind in KINDS:
        room.add(kind, ".swap")
    old = [(kind, base) for base in (0, 10, 20) for kind in KINDS]
    for kind, base in old[:gone]:
        name = f"{base:020d}.{kind}"
        (room.store.path / name).rename(room.store.path / f"{name}.deleted")
    assert room.start() == room.cleaned


@pytest.mark.parametrize("renamed", [1, 2])
def test_it_does_so_while_its_own_names_were_changing(room: Room, renamed: int) -> None:
    for base in (0, 10, 20):
        for kind in KINDS:
            room.remove(kind, base)
    for number, kind in enumerate(KINDS):
        room.add(kind, "" if number < renamed else ".swap")
    assert room.start() == room.cleaned


def test_files_of_other_segments_and_of_no_segment_stay(room: Room) -> None:
    for kind in KINDS:
        room.add(kind, ".swap")
    (room.store.path / "00000000000000000030-0000000001.checkpoint.deleted").write_bytes(b"a metadata snapshot")
    finish_swaps(room.store.disk, room.store.path)
    names = set(room.store.disk.names(room.store.path))
    assert "00000000000000000030-0000000001.checkpoint.deleted" in names
    assert {"leader-epoch-checkpoint", "partition.metadata", "00000000000000000030.log"} <= names
    assert not [name for name in names if name.startswith(("00000000000000000010", "00000000000000000020"))]


def test_unfinished_files_of_no_segment_are_removed_too(room: Room) -> None:
    for name in ("one.cleaned", "other.cleaned"):
        (room.store.path / name).write_bytes(b"")
    assert room.start() == room.dirty


def test_several_swap_files_of_a_split_are_taken_only_when_all_are_finished(room: Room) -> None:
    # A split renames the later segments first: the first one still being .cleaned, none of them counts.
    for kind in KINDS:
        room.add(kind, ".cleaned")
        shutil.copy(room.old / f"{10:020d}.{kind}", room.store.path / f"{10:020d}.{kind}.swap")
    assert room.start() == room.dirty


def test_what_belonged_to_any_of_several_finished_segments_is_removed(room: Room) -> None:
    stale = room.store.path / f"{0:020d}.txnindex"
    stale.write_bytes(b"of the segment that was split")
    for kind in KINDS:
        for base in (0, 10):
            shutil.copy(room.old / f"{base:020d}.{kind}", room.store.path / f"{base:020d}.{kind}.swap")
    finish_swaps(room.store.disk, room.store.path)
    assert not stale.exists()
    assert room.start() == room.dirty


def test_a_part_of_a_split_that_is_in_its_place_already_stays(room: Room) -> None:
    # A power failure keeps some of the renames at the end of a split, in any order.
    for kind in KINDS:
        for base in (0, 20):
            (room.store.path / f"{base:020d}.{kind}").rename(room.store.path / f"{base:020d}.{kind}.swap")
    assert room.start() == room.dirty


def test_a_start_that_dies_at_any_operation_can_be_repeated(room: Room, rng: random.Random) -> None:
    for after in range(200):
        room.place("old")
        for kind in KINDS:
            room.add(kind, ".swap")
        disk = SimulatedDisk()
        fault = disk.fail(path_prefix=room.store.path, after=after)
        with suppress(OSError):
            finish_swaps(disk, room.store.path)
        disk.lose_unflushed(rng.randrange(2**32))
        finish_swaps(room.store.disk, room.store.path)
        assert room.start() == room.cleaned
        if not fault.fired:
            break
    else:
        raise AssertionError("it never came to its end")
