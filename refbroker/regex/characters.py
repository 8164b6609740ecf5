"""Sets of characters: ranges, the classes of Perl, POSIX and Unicode, their complements, and case folding."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

LAST = 0x10FFFF
"""The last code point."""

Range = tuple[int, int]

_DOTLESS_I = 0x131
"""LATIN SMALL LETTER DOTLESS I, which has an upper case, but which simple case folding maps to itself."""
_LIKE_ASCII = {"k": "\N{KELVIN SIGN}", "s": "\N{LATIN SMALL LETTER LONG S}"}
"""Letters outside of ASCII that differ from an ASCII letter only by case."""
_CASED_END = 0x1E944
"""The code point after the last letter with case."""


class CharSet(NamedTuple):
    """A set of characters.

    Attributes:
        ranges: pairs of the first and the last code point.
        categories: Unicode categories of one or two letters: `Lu`, or `L` for all that begin with it.
        others: further sets that are part of this one.
        folded: whether `ranges` and `categories` ignore case.
        negated: whether the set is the complement.
    """

    ranges: Sequence[Range] = ()
    categories: Sequence[str] = ()
    others: Sequence[CharSet] = ()
    folded: bool = False
    negated: bool = False

    def contains(self, character: str) -> bool:
        """Return whether a character belongs to the set."""
        point = ord(character)
        found = self._has(point) or (self.folded and any(self._has(other) for other in fold_orbit(point)))
        return (found or any(other.contains(character) for other in self.others)) is not self.negated

    def _has(self, point: int) -> bool:
        if any(first <= point <= last for first, last in self.ranges):
            return True
        # Unassigned code points have a category in Python, and none in RE2.
        category = unicodedata.category(chr(point)) if self.categories else "Cn"
        return category != "Cn" and category.startswith(tuple(self.categories))


def _letters(text: str) -> list[Range]:
    """Read ranges, which are pairs of characters."""
    return [(ord(first), ord(last)) for first, last in zip(text[::2], text[1::2], strict=True)]


PERL = {"d": _letters("09"), "s": _letters("\t\n\f\r  "), "w": _letters("09AZ__az")}
"""The classes of Perl, by the letter after the backslash."""

POSIX = {
    "alnum": _letters("09AZaz"),
    "alpha": _letters("AZaz"),
    "ascii": _letters("\0\x7f"),
    "blank": _letters("\t\t  "),
    "cntrl": _letters("\0\x1f\x7f\x7f"),
    "digit": _letters("09"),
    "graph": _letters("!~"),
    "lower": _letters("az"),
    "print": _letters(" ~"),
    "punct": _letters("!/:@[`{~"),
    "space": _letters("\t\r  "),
    "upper": _letters("AZ"),
    "word": _letters("09AZ__az"),
    "xdigit": _letters("09AFaf"),
}
"""The classes of POSIX, by name."""

_MAJOR = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
CATEGORIES = frozenset(major + minor for major, minors in _MAJOR.items() for minor in ("", *minors))
"""Unicode's categories, by their names in expressions."""


def is_word(character: str) -> bool:
    """Return whether a character is part of a word, for `\\b`."""
    return character.isascii() and (character.isalnum() or character == "_")


@cache
def fold_orbit(point: int) -> frozenset[int]:
    """Return the code points that differ from one only by case, itself included."""
    if point < 0x80:
        # Computed without the table, which takes a while to create.
        letter = chr(point)
        return frozenset(map(ord, (letter.lower(), letter.upper(), *_LIKE_ASCII.get(letter.lower(), ""))))
    return _orbits().get(_fold(point), frozenset({point}))


def _fold(point: int) -> int:
    if point == _DOTLESS_I:
        return point
    upper = chr(point).upper()
    lower = (upper if len(upper) == 1 else chr(point)).lower()
    return ord(lower) if len(lower) == 1 else point


@cache
def _orbits() -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = {}
    for point in range(_CASED_END):
        found.setdefault(_fold(point), set()).add(point)
    return {folded: frozenset(points) for folded, points in found.items() if len(points) > 1}
