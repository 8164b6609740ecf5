"""The operating system's files: reads and writes that the system carries out in pieces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from refbroker.log import Files

FILES = Files(durable=False)


@pytest.mark.parametrize("most", [1, 3, 4, 1000])
def test_a_write_that_the_system_breaks_off_continues_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    def pwritev(fd: int, parts: Sequence[memoryview], position: int) -> int:
        return os.pwrite(fd, b"".join(parts)[:most], position)

    monkeypatch.setattr(os, "pwritev", pwritev)
    file = FILES.open(tmp_path / "f", create=True)
    assert FILES.pwrite(file, [b"abc", b"", bytearray(b"defgh"), b"i"], 2) == 9
    file.close()
    assert (tmp_path / "f").read_bytes() == b"\0\0abcdefghi"


def test_a_write_of_more_parts_than_the_system_takes_at_once_keeps_their_order(tmp_path: Path) -> None:
    parts = [b"%d " % number for number in range(3000)]
    file = FILES.open(tmp_path / "f", create=True)
    assert FILES.pwrite(file, parts, 0) == len(b"".join(parts))
    file.close()
    assert (tmp_path / "f").read_bytes() == b"".join(parts)


@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize(("size", "found"), [(0, b""), (6, b"cdefgh"), (7, b"cdefghi"), (20, b"cdefghi")])
def test_a_read_that_the_system_breaks_off_continues_up_to_the_end_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, size: int, found: bytes
) -> None:
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, most), position))
    (tmp_path / "f").write_bytes(b"abcdefghi")
    file = FILES.open(tmp_path / "f", writable=False)
    assert FILES.pread(file, size, 2) == found
    file.close()
