"""No bytes make the decoders hang, take much memory, or raise anything but a ProtocolError."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import ProtocolError
from kclient.protocol import Message, all_messages, frames, log_records, lookup
from tests.support.golden import random_message
from tests.support.golden_data import golden_rows

pytestmark = pytest.mark.fuzz

VERSIONS = [
    (message, version)
    for message in all_messages().values()
    for version in range(message.min_version, message.max_version + 1)
]

MEMORY_PER_BYTE = 256
FIXED_MEMORY = 16_384
"""Bytes; for the message itself, an exception with its traceback, and what the interpreter caches."""


def decode(message: type[Message], version: int, data: bytes) -> Message | None:
    try:
        return message.decode(data, version)
    except ProtocolError:
        return None


def peak_memory(message: type[Message], version: int, data: bytes) -> int:
    decode(message, version, b"")  # compiles the decoder
    # What another thread allocates meanwhile counts too, so the smaller one of two measurements is meant.
    return min(_peak_memory(message, version, data) for _ in range(2))


def _peak_memory(message: type[Message], version: int, data: bytes) -> int:
    tracemalloc.start()
    try:
        decode(message, version, data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@given(kind=st.sampled_from(VERSIONS), data=st.binary(max_size=300))
def test_random_bytes(kind: tuple[type[Message], int], data: bytes) -> None:
    message, version = kind
    value = decode(message, version, data)
    if value is not None:
        # Compared as bytes, since a float may be no number and so not equal to itself.
        encoded = value.encode(version)
        assert message.decode(encoded, version).encode(version) == encoded


@st.composite
def mutated(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """A golden message and its bytes with a few of them changed, cut off or repeated."""
    line = draw(st.sampled_from(golden_rows("messages")))
    data = bytearray.fromhex(line["hex"])
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(["set", "cut", "insert", "length"])):
            case "set" if data:
                data[position] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, draw(st.integers(0, 255))]))
            case "cut":
                del data[position:]
            case "insert":
                data[position:position] = draw(st.binary(max_size=8))
            case _:
                data[position : position + 4] = draw(st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"]))
    return line, bytes(data)


@given(mutated())
def test_mutated_messages(case: tuple[dict[str, Any], bytes]) -> None:
    line, data = case
    message, version = lookup(line["message"]), line["version"]
    assert peak_memory(message, version, data) < FIXED_MEMORY + MEMORY_PER_BYTE * len(data)
    value = decode(message, version, data)
    if value is not None:
        # Compared as bytes, since a float may be no number and so not equal to itself.
        encoded = value.encode(version)
        assert message.decode(encoded, version).encode(version) == encoded


@pytest.mark.parametrize("filler", [b"\x00", b"\x01", b"\x02", b"\x7f", b"\x80\x80\x01", b"\x00\x00\x00\x01"])
def test_monotonous_bytes_take_no_more_memory_than_allowed(filler: bytes) -> None:
    body = filler * (20_000 // len(filler))
    for message, version in VERSIONS:
        # A count that the rest could just about hold, in either form, and the rest of one kind.
        for start in (b"", len(body).to_bytes(4, "big"), b"\xa0\x9c\x01"):
            data = start + body
            assert peak_memory(message, version, data) < FIXED_MEMORY + MEMORY_PER_BYTE * len(data), (
                f"{message.__name__} v{version}"
            )


def test_truncated_messages_are_errors(rng: random.Random) -> None:
    for message, version in VERSIONS:
        data = random_message(message, version, rng, message.is_flexible(version)).encode(version)
        for end in {0, 1, len(data) // 2, len(data) - 1}.intersection(range(len(data))):
            with pytest.raises(ProtocolError):
                message.decode(data[:end], version)


@given(st.binary(max_size=100))
def test_frames_and_log_records(data: bytes) -> None:
    for read in (
        frames.decode_request_header,
        frames.peek_correlation_id,
        lambda data: frames.decode_response_header(1, 12, data),
        log_records.decode_metadata_record,
        log_records.decode_key,
        lambda data: log_records.decode_key(data, "__transaction_state"),
    ):
        try:
            read(data)
        except ProtocolError:
            pass
