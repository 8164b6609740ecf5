"""Strategies of hypothesis for bytes that are damaged or arrive in pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """Return bytes with a few of them changed, cut off, inserted or repeated."""
    found = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(found) - 1)))
        match draw(st.sampled_from(["set", "cut", "insert", "repeat"])):
            case "set" if found:
                found[at] = draw(st.integers(0, 255))
            case "cut":
                del found[at:]
            case "insert":
                found[at:at] = draw(st.binary(max_size=8))
            case _:
                found[at:at] = found[at : at + draw(st.integers(1, 40))]
    return bytes(found)


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """Return bytes in pieces."""
    places = draw(st.sets(st.integers(0, len(data)), max_size=6))
    return [data[start:end] for start, end in pairwise(sorted({0, len(data), *places}))]
