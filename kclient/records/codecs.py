"""The compression codecs of record batches; each library is imported on first use.

`compress` and `decompress` work on the whole records section of a batch. Bytes from the wire are decompressed as a
stream, or after the announced size was checked against the best ratio of the codec, and never beyond a limit, so that a
small malicious batch cannot exhaust the memory. The wrong header checksum of lz4 in message format 0 is handled in
`legacy`.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import Any

from kclient._compression import LEVELS, NAMES

__all__ = ["DEFAULT_LIMIT", "LEVELS", "NAMES", "TYPE_IDS", "DecompressionError", "check", "compress", "decompress"]

TYPE_IDS = {name: type_id for type_id, name in enumerate(NAMES)}

DEFAULT_LIMIT = 1 << 30
"""The default limit of the decompressed size of a batch: 1 GiB."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
XERIAL_BLOCK_SIZE = 32 * 1024
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
# A copy of 64 bytes takes 3 bytes in snappy; nothing expands more.
SNAPPY_BEST_RATIO = 22
GZIP_FIRST_WINDOW = 512
FIRST_CHUNK = 64 * 1024
LARGEST_CHUNK = 4 * 1024 * 1024

_local = threading.local()


class DecompressionError(ValueError):
    """Compressed bytes are malformed, incomplete, or exceed the limit."""


def check(name: str, level: int | None = None) -> None:
    """Raise ValueError if `name` is not a compression type or `level` is not one of its levels; None is the default."""
    if name not in TYPE_IDS:
        raise ValueError(f"compression_type must be one of {', '.join(NAMES)}, not {name!r}")
    if level is None:
        return
    if name not in LEVELS:
        raise ValueError(f"compression type {name} has no levels")
    levels = LEVELS[name]
    if not levels.allow(level):
        special = "" if levels.special is None else f" and {levels.special}"
        raise ValueError(f"{name} has compression levels {levels.least} to {levels.greatest}{special}, not {level}")


def compress(name: str, data: Any, level: int | None = None) -> bytes:
    """Compress bytes-like `data` in the form that Kafka's own clients read.

    Parameters:
        name: `none`, `gzip`, `snappy` (written in xerial's framing), `lz4` or `zstd`.
        level: the codec's level; None is Kafka's default, and so is 9 for lz4 (its fast compressor).

    Raises:
        ValueError: the codec or level does not exist.
    """
    check(name, level)
    return _COMPRESSORS[name](data, level)


def decompress(name: str, data: Any, limit: int = DEFAULT_LIMIT) -> bytes:
    """Decompress bytes-like `data`.

    Parameters:
        limit: the maximum decompressed size in bytes.

    Raises:
        DecompressionError: the data are malformed, incomplete, or larger than `limit`.
        ValueError: the codec does not exist.
    """
    check(name)
    return _DECOMPRESSORS[name](memoryview(data).cast("B"), limit)


def _too_large(limit: int) -> DecompressionError:
    return DecompressionError(f"the records exceed the limit of {limit} bytes when decompressed")


def _compress_none(data: Any, level: int | None) -> bytes:
    return bytes(data)


def _decompress_none(data: memoryview, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    return bytes(data)


def _compress_gzip(data: Any, level: int | None) -> bytes:
    compressor = zlib.compressobj(
        LEVELS["gzip"].default if level is None else level, zlib.DEFLATED, 16 + zlib.MAX_WBITS
    )
    return compressor.compress(data) + compressor.flush()


def _decompress_gzip(data: memoryview, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit
    position = 0
    # There is nearly always only one stream. Later ones receive little input at first: a stream that ends copies the
    # rest of its input, which for thousands of tiny ones would take quadratic time.
    window = len(data)
    while True:
        decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
        while not decompressor.eof:
            if position == len(data):
                raise DecompressionError("gzip: the data end before the stream does")
            piece = data[position : position + window]
            try:
                part = decompressor.decompress(piece, left + 1)
            except zlib.error as error:
                raise DecompressionError(f"gzip: {error}") from None
            left -= len(part)
            if left < 0:
                raise _too_large(limit)
            parts.append(part)
            position += len(piece) - len(decompressor.unused_data)
            window *= 2
        if position == len(data):
            return parts[0] if len(parts) == 1 else b"".join(parts)
        window = GZIP_FIRST_WINDOW


def _compress_snappy(data: Any, level: int | None) -> bytes:
    import snappy

    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = snappy.compress(bytes(view[start : start + XERIAL_BLOCK_SIZE]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _snappy_block(data, limit)
    position = len(XERIAL_HEADER)
    if len(data) < position:
        raise DecompressionError("snappy: the xerial header is cut off")
    parts: list[bytes] = []
    left = limit
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise DecompressionError(f"snappy: a block of {size} bytes is cut off")
        parts.append(_snappy_block(data[position : position + size], left))
        left -= len(parts[-1])
        position += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_block(data: memoryview, limit: int) -> bytes:
    import snappy

    promised = shift = 0
    for byte in data[:5]:
        promised |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise DecompressionError("snappy: the block's size is malformed")
    if promised > limit:
        raise _too_large(limit)
    if promised > SNAPPY_BEST_RATIO * len(data):
        raise DecompressionError(f"snappy: {len(data)} bytes cannot hold the {promised} bytes they promise")
    try:
        result: bytes = snappy.decompress(bytes(data))
    except snappy.UncompressError as error:
        raise DecompressionError(f"snappy: {error.__cause__ or error}") from None
    return result


def _compress_lz4(data: Any, level: int | None) -> bytes:
    import lz4.frame

    result: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level in (None, LEVELS["lz4"].default) else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        # Kafka's own reader supports neither linked blocks nor needs the size.
        block_linked=False,
        store_size=False,
    )
    return result


def _decompress_lz4(data: memoryview, limit: int) -> bytes:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    given: memoryview | bytes = data

    def read(size: int) -> bytes:
        nonlocal given
        if decompressor.eof:
            return b""
        try:
            part: bytes = decompressor.decompress(given, max_length=size)
        except (RuntimeError, EOFError) as error:
            raise DecompressionError(f"lz4: {error}") from None
        given = b""
        return part

    result = _read_all(read, limit)
    if not decompressor.eof:
        raise DecompressionError("lz4: the data end before the frame does")
    return result


def _compress_zstd(data: Any, level: int | None) -> bytes:
    import zstandard

    level = LEVELS["zstd"].default if level is None else level
    compressors = _local.__dict__.setdefault("compressors", {})
    compressor = compressors.get(level)
    if compressor is None:
        compressor = compressors[level] = zstandard.ZstdCompressor(level=level)
    result: bytes = compressor.compress(data)
    return result


def _decompress_zstd(data: memoryview, limit: int) -> bytes:
    import zstandard

    decompressor = _local.__dict__.get("decompressor")
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    try:
        size = _zstd_whole_frames(data)
        # Read as a stream: frames of Java's library do not contain their size, and frames may follow.
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            return _read_all(reader.read, limit, size)
    except zstandard.ZstdError as error:
        raise DecompressionError(f"zstd: {error}") from None


def _zstd_whole_frames(data: memoryview) -> int:
    """Return the announced size of the first frame (at least 1), after checking that all frames are complete.

    The stream reader accepts the end of its input as the end of the stream, so truncation must be detected here, by the
    sizes of the blocks.
    """
    import zstandard

    first = 1
    position = 0
    while position < len(data):
        frame = data[position:]
        if frame[1:4] == ZSTD_SKIPPABLE and frame[0] & 0xF0 == 0x50:
            position += 8 + int.from_bytes(frame[4:8], "little")
            continue
        if position == 0:
            first = max(zstandard.frame_content_size(frame), 1)
        checksum = 4 if frame[4:5] and frame[4] & 0x04 else 0
        position += zstandard.frame_header_size(frame)
        last = False
        while not last:
            if position + 3 > len(data):
                raise DecompressionError("zstd: the data end before the frame does")
            block = int.from_bytes(data[position : position + 3], "little")
            last = bool(block & 1)
            run = (block >> 1) & 3 == 1
            position += 3 + (1 if run else block >> 3)
        position += checksum
    if position > len(data):
        raise DecompressionError("zstd: the data end before the frame does")
    return first


def _read_all(read: Callable[[int], bytes], limit: int, expected: int = 0) -> bytes:
    """Return everything that `read(size)` returns, in growing chunks, and never more than `limit`."""
    parts: list[bytes] = []
    total = 0
    size = min(max(expected, FIRST_CHUNK), LARGEST_CHUNK)
    while part := read(min(size, limit + 1 - total)):
        parts.append(part)
        total += len(part)
        if total > limit:
            raise _too_large(limit)
        if len(part) == size:
            size = min(size * 2, LARGEST_CHUNK)
    return parts[0] if len(parts) == 1 else b"".join(parts)


_COMPRESSORS: dict[str, Callable[[Any, int | None], bytes]] = {
    "none": _compress_none,
    "gzip": _compress_gzip,
    "snappy": _compress_snappy,
    "lz4": _compress_lz4,
    "zstd": _compress_zstd,
}

_DECOMPRESSORS: dict[str, Callable[[memoryview, int], bytes]] = {
    "none": _decompress_none,
    "gzip": _decompress_gzip,
    "snappy": _decompress_snappy,
    "lz4": _decompress_lz4,
    "zstd": _decompress_zstd,
}
