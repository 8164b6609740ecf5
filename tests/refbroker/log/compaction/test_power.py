"""The disk fails at some operation of a pass, and the power with it: nothing is lost that must be there."""

from __future__ import annotations

import random
import shutil

from hypothesis import settings

from kclient.errors import KafkaStorageError
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.stores import Store
from tests.support.workshop import COMPACTED, begin_pass, file_names, latest, put, records


def prepare(store: Store) -> None:
    """Two groups of small segments, closed cleanly."""
    log = store.log(COMPACTED)
    for number in range(70):
        put(
            log,
            (b"%d" % (number % 5), b"v" * 60),
            (b"once %d" % number, b"1"),
            producer=(number % 2, 0, number // 2 * 2),
        )
        if number % 10 == 9:
            log.roll()
    put(log, (b"active", b"1"))
    store.close()


def test_a_pass_that_dies_at_any_operation_loses_nothing(store: Store, rng: random.Random) -> None:
    prepare(store)
    original = store.root / "original"
    shutil.copytree(store.directory, original)
    log = store.log(COMPACTED)
    before, producers = records(log), log.producers()
    store.close()
    outcomes = set()
    # Every operation has its turn in some run; all at once take half a minute.
    stride = 1 if (settings.default or settings()).max_examples > 1000 else 12
    for after in range(rng.randrange(stride), 1000, stride):
        shutil.rmtree(store.directory)
        shutil.copytree(original, store.directory)
        disk = store.disk = SimulatedDisk()  # type: ignore[assignment]
        log = store.log(COMPACTED)
        # What an orderly start changes is not what is tested here.
        log.flush()
        assert store.manager is not None
        store.manager.checkpoint()
        disk.fsync_directory(store.path)
        fault = disk.fail(path_prefix=store.path, after=after)
        running = begin_pass(store, log, io_buffer_size=2000)
        try:
            while running.step() is not None:
                pass
        except KafkaStorageError:
            assert fault.fired
        running.close()
        store.crash()
        disk.lose_unflushed(rng.randrange(2**32))
        log = store.log(COMPACTED)
        left = records(log)
        assert latest(left) == latest(before), after
        assert set(left) <= set(before)
        assert [kept.offset for kept in left] == sorted({kept.offset for kept in left})
        assert [entry.last_sequence for entry in log.producers()] == [entry.last_sequence for entry in producers]
        assert not [name for name in file_names(store) if name.endswith((".cleaned", ".swap", ".deleted"))]
        outcomes.add(len(left))
        store.crash()
        if not fault.fired:
            break
    else:
        raise AssertionError("it never came to its end")
    # Nothing replaced, and everything.
    assert min(outcomes) < len(before) == max(outcomes)
