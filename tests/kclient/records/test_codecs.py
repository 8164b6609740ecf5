"""Compression: round trips, other writers' framings, limits, and hostile bytes."""

from __future__ import annotations

import gzip
import os
import random
import tracemalloc
import zlib
from typing import Any

import lz4.frame
import pytest
import snappy
import zstandard

from kclient._compression import LEVELS, NAMES
from kclient.records.codecs import DecompressionError, compress, decompress

TEXT = b"the quick brown fox jumps over the lazy dog; " * 5000
COMPRESSED = NAMES[1:]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, os.urandom(200_000)], ids=["empty", "one", "text", "random"])
def test_what_is_compressed_comes_back(name: str, data: bytes) -> None:
    for given in (data, memoryview(data), bytearray(data)):
        assert decompress(name, compress(name, given)) == data


@pytest.mark.parametrize(("name", "level"), [(name, level) for name, levels in LEVELS.items() for level in levels])
def test_every_codecs_extreme_levels_work(name: str, level: int) -> None:
    assert decompress(name, compress(name, TEXT, level)) == TEXT


@pytest.mark.parametrize(
    ("name", "level", "known"),
    [
        ("gzip", 0, "1 to 9 and -1"),
        ("gzip", -2, "1 to 9 and -1"),
        ("gzip", 10, "1 to 9 and -1"),
        ("lz4", 0, "1 to 17"),
        ("lz4", 18, "1 to 17"),
        ("zstd", 23, "-131072 to 22"),
    ],
)
def test_a_level_that_a_codec_does_not_have_is_refused(name: str, level: int, known: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} has compression levels {known}, not {level}$"):
        compress(name, TEXT, level)


def test_levels_trade_time_for_size() -> None:
    data = b"".join(b"%d," % (number * number) for number in range(20_000))
    for name, (low, high) in {"gzip": (1, 9), "zstd": (1, 19), "lz4": (9, 12)}.items():
        assert len(compress(name, data, high)) < len(compress(name, data, low))


def test_snappy_is_written_in_xerials_framing_and_read_raw_as_well() -> None:
    framed = compress("snappy", TEXT)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress("snappy", snappy.compress(TEXT)) == TEXT


def test_frames_that_tell_no_size_are_read() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    assert decompress("zstd", stream.compress(TEXT) + stream.flush()) == TEXT
    assert decompress("lz4", lz4.frame.compress(TEXT, store_size=False)) == TEXT
    assert decompress("lz4", lz4.frame.compress(TEXT, store_size=True, content_checksum=True)) == TEXT


def test_several_streams_in_a_row_are_read() -> None:
    assert decompress("gzip", gzip.compress(b"one") + gzip.compress(b"two")) == b"onetwo"
    one, two = (zstandard.ZstdCompressor(write_checksum=True).compress(part) for part in (b"one", b"two"))
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    assert decompress("zstd", skippable + one + skippable + two) == b"onetwo"


def test_many_small_gzip_streams_take_time_in_proportion_to_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    given = 0

    class Counting:
        def __init__(self, *arguments: Any) -> None:
            self.inner = make(*arguments)

        def decompress(self, data: bytes, limit: int) -> bytes:
            nonlocal given
            given += len(data)
            return self.inner.decompress(data, limit)

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

    make = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    data = gzip.compress(b"a", mtime=0) * 2000 + gzip.compress(os.urandom(50_000), mtime=0)
    assert len(decompress("gzip", data)) == 52_000
    assert given < 100 * len(data)


@pytest.mark.parametrize("name", NAMES)
def test_the_limit_holds(name: str) -> None:
    data = compress(name, TEXT)
    assert decompress(name, data, limit=len(TEXT)) == TEXT
    for limit in (0, 1000, len(TEXT) - 1):
        with pytest.raises(DecompressionError, match="limit"):
            decompress(name, data, limit=limit)


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_a_bomb_takes_no_memory_beyond_the_limit(name: str) -> None:
    bomb = compress(name, bytes(64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError, match="limit"):
            decompress(name, bomb, limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_promise_that_snappy_cannot_keep_is_refused_before_allocation() -> None:
    promise = b"\xff\xff\xff\xff\x01" + b"\x00" * 20
    for data in (promise, b"\x82SNAPPY\x00" + bytes(8) + len(promise).to_bytes(4, "big") + promise):
        with pytest.raises(DecompressionError, match="cannot hold"):
            decompress("snappy", data)


@pytest.mark.parametrize("name", COMPRESSED)
def test_cut_off_data_are_an_error(name: str) -> None:
    data = compress(name, TEXT)
    for kept in {0, 1, 5, 16, len(data) // 2, len(data) - 5, len(data) - 1}:
        if (name, kept) in (("zstd", 0), ("snappy", 16)):
            continue
        with pytest.raises(DecompressionError):
            decompress(name, data[:kept])


@pytest.mark.parametrize("name", COMPRESSED)
def test_garbage_is_an_error_or_other_bytes_and_never_a_crash(name: str) -> None:
    source = random.Random(4711)
    good = compress(name, TEXT[:3000])
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(source.randrange(1, 4)):
            bad[source.randrange(len(bad))] = source.randrange(256)
        try:
            result = decompress(name, bytes(bad), limit=1 << 20)
        except DecompressionError:
            continue
        assert len(result) <= 1 << 20
    for _ in range(100):
        with pytest.raises(DecompressionError):
            decompress(name, b"\x7f" + source.randbytes(40))


def test_unknown_names_are_an_error() -> None:
    with pytest.raises(ValueError, match="brotli"):
        compress("brotli", b"")
    with pytest.raises(ValueError, match="brotli"):
        decompress("brotli", b"")


def test_gzip_is_what_others_read() -> None:
    assert gzip.decompress(compress("gzip", TEXT, 6)) == TEXT
    assert zlib.decompress(compress("gzip", TEXT), 31) == TEXT
