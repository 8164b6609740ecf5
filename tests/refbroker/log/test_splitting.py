"""Splitting a segment whose offsets are too far apart for an index, and what a power failure leaves of it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kclient.errors import KafkaStorageError
from tests.support.stores import START_MS, PowerlessStore, Store, append, make_batch, read_all

OFFSETS = [6, 2**31 - 1, 2**31, 2**31 + 5, 2**33]


def write_overflowed_segment(store: Store, *, clean: bool) -> None:
    """Leave a data directory as an old broker could, with a segment that holds `OFFSETS` after six other records."""
    log = store.log()
    for _ in range(3):
        append(log, 2)
    path = log.segments.active.path
    store.close()
    with path.open("ab") as file:
        for offset in OFFSETS:
            file.write(make_batch(1, base_offset=offset, partition_leader_epoch=0, timestamp=START_MS + 9))
    if not clean:
        (store.directory / ".kafka_cleanshutdown").unlink()
        (store.directory / "recovery-point-offset-checkpoint").unlink()
    path.with_suffix(".index").unlink()


@pytest.mark.parametrize("clean", [True, False])
def test_a_segment_with_offsets_too_far_apart_is_split(store: Store, clean: bool) -> None:
    write_overflowed_segment(store, clean=clean)
    log = store.log()
    assert log.segments.base_offsets == [0, 2**31, 2**33]
    assert [offset for offset, _, _ in read_all(log)] == [*range(6), *OFFSETS]
    assert append(log).base_offset == 2**33 + 1
    assert not [name for name in store.path.iterdir() if name.suffix in (".swap", ".cleaned", ".deleted")]


def test_a_power_failure_at_any_operation_of_a_split_loses_nothing(tmp_path: Path, rng: random.Random) -> None:
    store = PowerlessStore(tmp_path)
    write_overflowed_segment(store, clean=True)
    original = tmp_path / "original"
    shutil.copytree(store.directory, original)
    # Every operation has its turn in some run.
    stride = 3
    has_failed, after = True, rng.randrange(stride)
    while has_failed:
        shutil.rmtree(store.directory)
        shutil.copytree(original, store.directory)
        store = PowerlessStore(tmp_path)
        fault = store.power.fail(path_prefix=store.path, after=after)
        try:
            store.log()
        except KafkaStorageError:
            assert fault.fired
        store.crash()
        store.power.lose_unflushed(rng.randrange(1 << 30))
        found = [offset for offset, _, _ in read_all(store.log())]
        assert found == [*range(6), *OFFSETS], f"after {after} operations"
        store.crash()
        has_failed, after = fault.fired > 0, after + stride
    assert after > 30
