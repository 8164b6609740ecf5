"""Reads DER (ITU-T X.690), as far as certificates need it: nested values, each a tag, a length and contents.

Every length is checked against the bytes that are there. Elsewhere: certificates (`certificates`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

INTEGER, BIT_STRING, OCTET_STRING, OBJECT_IDENTIFIER = 0x02, 0x03, 0x04, 0x06
UTF8_STRING, PRINTABLE_STRING, T61_STRING, IA5_STRING = 0x0C, 0x13, 0x14, 0x16
UTC_TIME, GENERALIZED_TIME, BMP_STRING = 0x17, 0x18, 0x1E
SEQUENCE, SET = 0x30, 0x31
_LARGEST_NUMBER = 1 << 140
"""Above the numbers in an object identifier; those made of a UUID have 128 bits."""


class DerError(ValueError):
    """The bytes are not DER, or not what was expected."""


class Value(NamedTuple):
    """One value: its tag, its contents, and all of its bytes."""

    tag: int
    contents: memoryview
    whole: memoryview

    def expect(self, tag: int) -> Value:
        """Return this value.

        Raises:
            DerError: it has another tag.
        """
        if self.tag != tag:
            raise DerError(f"expected the tag {tag:#04x}, found {self.tag:#04x}")
        return self

    def parts(self) -> list[Value]:
        """Return the values in its contents.

        Raises:
            DerError: the contents are not a list of values.
        """
        return values(self.contents)


def parse(data: bytes | memoryview) -> Value:
    """Return the value that the bytes are.

    Raises:
        DerError: they are not exactly one value.
    """
    found = values(data)
    if len(found) != 1:
        raise DerError(f"expected one value, found {len(found)}")
    return found[0]


def values(data: bytes | memoryview) -> list[Value]:
    """Return the values that follow each other in some bytes.

    Raises:
        DerError: the bytes are not a list of values.
    """
    return list(_values(memoryview(data)))


def object_identifier(value: Value) -> str:
    """Return an object identifier in dotted form, such as "2.5.4.3".

    Raises:
        DerError: the value is none.
    """
    numbers: list[int] = []
    number = 0
    contents = value.expect(OBJECT_IDENTIFIER).contents
    if not contents or contents[-1] & 0x80:
        raise DerError("an object identifier ends early")
    for byte in contents:
        # Numbers of any size would take time with the square of their length.
        if number >= _LARGEST_NUMBER >> 7:
            raise DerError("an object identifier has too large a number")
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _values(data: memoryview) -> Iterator[Value]:
    start = 0
    while start < len(data):
        if len(data) - start < 2:
            raise DerError("a value ends early")
        tag, length = data[start], data[start + 1]
        at = start + 2
        if tag & 0x1F == 0x1F:
            raise DerError("tags of several bytes are not expected")
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or len(data) - at < count:
                raise DerError("a length has an impossible size")
            length = int.from_bytes(data[at : at + count])
            at += count
        if length > len(data) - at:
            raise DerError(f"a value of {length} bytes ends early")
        yield Value(tag, data[at : at + length], data[start : at + length])
        start = at + length
