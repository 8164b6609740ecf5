"""XXH3, 64 bits, without a seed: Kafka's hash of the topics that a group is subscribed to.

It is written to the log, where Kafka compares it with its own when it takes over a data directory; a hash that
differs would cost each group a rebalance. The input is a few bytes for each partition, and hashed once for each
change of a topic, so that plain Python is fast enough. Source: the specification of xxHash, which has the names and
constants.
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_MX1, _MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE, _CONSUMED, _LANES = 64, 8, 8
_STRIPES_IN_BLOCK = (len(_SECRET) - _STRIPE) // _CONSUMED
_LARGEST_SMALL, _LARGEST_MEDIUM = 128, 240


def xxh3_64(data: bytes) -> int:
    """The hash, as an unsigned number of 64 bits."""
    length = len(data)
    if length <= 16:
        return _hash_short(data, length)
    if length <= _LARGEST_SMALL:
        return _hash_small(data, length)
    return _hash_medium(data, length) if length <= _LARGEST_MEDIUM else _hash_long(data, length)


def _u32(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 4], "little")


def _u64(data: bytes, offset: int) -> int:
    return int.from_bytes(data[offset : offset + 8], "little")


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _MX1 & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value = (value ^ value >> 33) * _P64[1] & _MASK
    value = (value ^ value >> 29) * _P64[2] & _MASK
    return value ^ value >> 32


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _hash_short(data: bytes, length: int) -> int:
    if length > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, length - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(length + swapped + high + _fold(low, high) & _MASK)
    if length >= 4:
        combined = _u32(data, length - 4) + (_u32(data, 0) << 32)
        value = combined ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= _rotate(value, 49) ^ _rotate(value, 24)
        value = value * _MX2 & _MASK
        value = (value ^ (value >> 35) + length) * _MX2 & _MASK
        return value ^ value >> 28
    if length:
        combined = data[0] << 16 | data[length >> 1] << 24 | data[length - 1] | length << 8
        return _avalanche_64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix(data: bytes, offset: int, secret: int) -> int:
    return _fold(_u64(data, offset) ^ _u64(_SECRET, secret), _u64(data, offset + 8) ^ _u64(_SECRET, secret + 8))


def _hash_small(data: bytes, length: int) -> int:
    value = length * _P64[0]
    for pair in range((length - 1) // 32 + 1):
        value += _mix(data, 16 * pair, 32 * pair) + _mix(data, length - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(value & _MASK)


def _hash_medium(data: bytes, length: int) -> int:
    value = length * _P64[0]
    for number in range(8):
        value += _mix(data, 16 * number, 16 * number)
    value = _avalanche(value & _MASK)
    for number in range(8, length // 16):
        value += _mix(data, 16 * number, 16 * (number - 8) + 3)
    value += _mix(data, length - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _hash_long(data: bytes, length: int) -> int:
    sums = [_P32[2], _P64[0], _P64[1], _P64[2], _P64[3], _P32[1], _P64[4], _P32[0]]
    last = (length - 1) // _STRIPE
    for stripe in range(last):
        place = stripe % _STRIPES_IN_BLOCK
        _accumulate(sums, data, stripe * _STRIPE, place * _CONSUMED)
        if place == _STRIPES_IN_BLOCK - 1:
            _scramble(sums)
    _accumulate(sums, data, length - _STRIPE, len(_SECRET) - _STRIPE - 7)
    value = length * _P64[0]
    for pair in range(4):
        secret = 11 + 16 * pair
        value += _fold(sums[2 * pair] ^ _u64(_SECRET, secret), sums[2 * pair + 1] ^ _u64(_SECRET, secret + 8))
    return _avalanche(value & _MASK)


def _accumulate(sums: list[int], data: bytes, offset: int, secret: int) -> None:
    words = struct.unpack_from("<8Q", data, offset)
    keys = struct.unpack_from("<8Q", _SECRET, secret)
    for lane in range(_LANES):
        key = words[lane] ^ keys[lane]
        sums[lane ^ 1] = sums[lane ^ 1] + words[lane] & _MASK
        sums[lane] = sums[lane] + (key & 0xFFFFFFFF) * (key >> 32) & _MASK


def _scramble(sums: list[int]) -> None:
    for lane in range(_LANES):
        key = _u64(_SECRET, len(_SECRET) - _STRIPE + 8 * lane)
        sums[lane] = (sums[lane] ^ sums[lane] >> 47 ^ key) * _P32[0] & _MASK
