"""Look-ups in one segment whose indexes are sparse, at the edges that Kafka users have met."""

from __future__ import annotations

import struct
from pathlib import Path

from refbroker.log import Files, LogConfig
from refbroker.log.segment import Segment
from tests.support.stores import make_batch

FILES = Files(durable=False)
BASE = 3_257_573


def sparse_segment(path: Path, position: int, batches: list[bytes], *, index: bytes, times: bytes) -> Segment:
    """A segment of which only the batches from `position` on exist; before that the file is a hole."""
    with (path / f"{BASE:020d}.log").open("wb") as file:
        file.seek(position)
        for batch in batches:
            file.write(batch)
    (path / f"{BASE:020d}.index").write_bytes(index)
    (path / f"{BASE:020d}.timeindex").write_bytes(times)
    return Segment(FILES, path, BASE, LogConfig(), created_ms=0)


def test_an_offset_between_two_index_entries_is_found_by_scanning_from_the_lower_one(tmp_path: Path) -> None:
    position = 1_073_707_263
    batches = [make_batch(1, base_offset=offset) for offset in range(6_506_150, 6_506_160)]
    index = struct.pack(">iiii", 6_505_000 - BASE, 1_073_000_000, 6_506_150 - BASE, position)
    segment = sparse_segment(tmp_path, position, batches, index=index, times=b"")
    assert segment.offset_index.lookup(6_506_155) == (6_506_150, position)
    found = segment.find(6_506_155)
    assert found is not None
    assert (found.base_offset, found.position) == (6_506_155, position + 5 * len(batches[0]))
    assert segment.find(6_506_160) is None
    assert segment.next_offset() == 6_506_160


def test_a_time_before_the_next_time_index_entry_is_found_by_scanning_up_to_it(tmp_path: Path) -> None:
    position = 900_000_000
    times = {6_506_200: 1_570_793_423_490, 6_506_220: 1_570_793_423_500, 6_506_240: 1_570_793_423_503}
    batches = []
    for offset in range(6_506_200, 6_506_241):
        known = max(time for first, time in times.items() if first <= offset)
        later = 1 if offset in (6_506_230, 6_506_231) else 0
        batches.append(make_batch(1, base_offset=offset, timestamp=known + later, partition_leader_epoch=4))
    index = struct.pack(">ii", 6_506_200 - BASE, position)
    entries = [(1_570_793_423_490, 6_506_200), (1_570_793_423_503, 6_506_240)]
    time_index = b"".join(struct.pack(">qi", time, offset - BASE) for time, offset in entries)
    segment = sparse_segment(tmp_path, position, batches, index=index, times=time_index)
    assert segment.time_index.lookup(1_570_793_423_501) == (1_570_793_423_490, 6_506_200)
    assert segment.find_timestamp(1_570_793_423_501, BASE) == (6_506_230, 1_570_793_423_501, 4)
    assert segment.find_timestamp(1_570_793_423_502, BASE) == (6_506_240, 1_570_793_423_503, 4)
    assert segment.find_timestamp(1_570_793_423_504, BASE) is None
    assert segment.max_timestamp == (1_570_793_423_503, 6_506_240)


def test_headers_of_batches_of_all_sizes_are_walked(tmp_path: Path) -> None:
    sizes = [0, 10_000, 1, 8_192, 3, 300_000, 0]
    batches = []
    offset = BASE
    for size in sizes:
        batches.append(make_batch(2, size=size, base_offset=offset))
        offset += 2
    segment = sparse_segment(tmp_path, 0, batches, index=b"", times=b"")
    assert [header.size_in_bytes for header in segment.headers()] == [len(batch) for batch in batches]
    assert [bytes(header.raw) for header in segment.batches()] == batches
    assert [header.base_offset for header in segment.headers()] == list(range(BASE, offset, 2))


def test_a_batch_that_is_cut_off_at_the_end_is_not_seen(tmp_path: Path) -> None:
    whole, cut = make_batch(2, base_offset=BASE), make_batch(2, size=5_000, base_offset=BASE + 2)
    segment = sparse_segment(tmp_path, 0, [whole, cut[:-1]], index=b"", times=b"")
    assert len(list(segment.headers())) == 1
    assert len(list(segment.batches())) == 1
    assert segment.next_offset() == BASE + 2
