"""Reads regular expressions in the part of Java's syntax that an automaton can match, with Java's meaning.

Refused, because no automaton has them: references to groups, conditions on the text around (`(?=`, `(?<!`), atomic
groups, possessive operators, and repetitions of what may be empty, whose groups depend on how Java backtracks. Refused,
because they are not implemented: sets within sets and `&&`, the flags d, m, u, U and x, and classes of Unicode other
than its categories. Words (`\\b`) are of ASCII, as since Java 19. Source: the JDK's java.util.regex.Pattern.
"""

from __future__ import annotations

from refbroker.regex.characters import CATEGORIES, CharSet, Range
from refbroker.regex.syntax import (
    CLASS_RANGE,
    ESCAPE,
    MISSING_ARGUMENT,
    MISSING_BRACKET,
    NAMED_CAPTURE,
    Assertion,
    Characters,
    Choice,
    Group,
    Node,
    Parser,
    Repeat,
    fail,
)

LINE_ENDS = ((0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029))
"""What a point does not match."""
_CLASSES: dict[str, tuple[Range, ...]] = {
    "d": ((0x30, 0x39),),
    "h": ((0x09, 0x09), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200A),
          (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
    "s": ((0x09, 0x0D), (0x20, 0x20)),
    "v": ((0x0A, 0x0D), (0x85, 0x85), (0x2028, 0x2029)),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
}  # fmt: skip
_CONTROLS = {"a": 7, "e": 27, "f": 12, "n": 10, "r": 13, "t": 9}
_OPERATORS = ("*", "+", "?", "{")
_GROUPS = {
    "(?=": "(?=...)",
    "(?!": "(?!...)",
    "(?<=": "(?<=...)",
    "(?<!": "(?<!...)",
    "(?>": "(?>...)",
}
_UPPER, _LOWER = (0x41, 0x5A), (0x61, 0x7A)
_CASE = 0x20


def parse_java(expression: str) -> tuple[Node, int, dict[str, int]]:
    """Return the tree of an expression, the number of its groups, and the numbers of those with a name.

    Raises:
        RegexError: it is not valid, or not of the part that is implemented.
    """
    parser = _JavaParser(expression)
    node = parser.parse()
    _check_repetitions(node)
    return node, parser.count, parser.names


def _check_repetitions(node: Node) -> bool:
    """Check what is repeated, and return whether a node can match the empty text.

    Raises:
        RegexError: the repetition of something that may be empty.
    """
    if isinstance(node, Characters):
        return False
    if isinstance(node, Assertion):
        return True
    if isinstance(node, Group):
        return _check_repetitions(node.node)
    if isinstance(node, Repeat):
        may_be_empty = _check_repetitions(node.node)
        if may_be_empty and (node.minimum, node.maximum) not in ((0, 1), (1, 1)):
            fail("a repetition of what may be empty is not implemented; write (a+)* instead of (a*)*")
        return may_be_empty or node.minimum == 0
    parts = [_check_repetitions(part) for part in node.nodes]
    return any(parts) if isinstance(node, Choice) else all(parts)


class _JavaParser(Parser):
    def _single(self, character: str) -> None:
        if character == ".":
            self._add(Characters(CharSet(() if self._flags.dot_all else LINE_ENDS, negated=True)))
        elif character in "^$":
            self._add(Assertion("A" if character == "^" else "Z"))
        else:
            self._literal(ord(character))

    def _literal(self, point: int) -> None:
        self._add(Characters(self._set([(point, point)])))

    def _set(self, ranges: list[Range], **more: bool) -> CharSet:
        """Return a set; without case, only letters of ASCII have another one."""
        if self._flags.fold:
            ranges = ranges + [
                ((max(first, start) ^ _CASE), (min(last, end) ^ _CASE))
                for first, last in ranges
                for start, end in (_UPPER, _LOWER)
                if first <= end and last >= start
            ]
        return CharSet(ranges, **more)  # type: ignore[arg-type]

    # -- repetition

    def _repetition(self) -> tuple[int, int | None] | None:
        bounds = super()._repetition()
        if bounds is None:
            fail("invalid repetition {...}")
        if self._looking_at("+"):
            fail("possessive operators are not implemented")
        return bounds

    def _number(self) -> int | None:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] in "0123456789":
            self._at += 1
        digits = self._text[start : self._at]
        return int(digits[:9]) if digits else None

    # -- groups

    def _open(self) -> None:
        for begin, shown in _GROUPS.items():
            if self._looking_at(begin):
                fail(f"{shown} is not implemented")
        if self._looking_at("(?P"):
            fail("(?P is not of Java's syntax; write (?<name>...)")
        super()._open()

    def _name(self) -> str:
        name = super()._name()
        if "_" in name or not name[0].isalpha():
            fail(NAMED_CAPTURE)
        return name

    def _perl_flags(self) -> None:
        end = min((at for at in (self._text.find(c, self._at + 2) for c in ":)") if at >= 0), default=0)
        unknown = set(self._text[self._at + 2 : end]) - set("is-")
        if unknown:
            fail(f"the flag {min(unknown)!r} is not implemented")
        super()._perl_flags()
        if self._text[self._at - 1] == ")" and self._text[self._at : self._at + 1] in _OPERATORS:
            fail(MISSING_ARGUMENT)

    # -- escapes

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following and following in "123456789k":
            fail("references to groups are not implemented")
        if following and following in "GRXN":
            fail(f"\\{following} is not implemented")
        if following == "Z":
            self._at += 2
            self._add(Assertion("Z"))
        elif following and following.lower() in _CLASSES:
            self._add(Characters(self._perl_class()))
        else:
            super()._escape()

    def _escaped_point(self) -> int:
        following = self._text[self._at + 1 : self._at + 2]
        if following in _CONTROLS:
            self._at += 2
            return _CONTROLS[following]
        if following == "u":
            digits = self._text[self._at + 2 : self._at + 6]
            self._at += 6
            if len(digits) < 4 or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                fail(ESCAPE)
            return int(digits, 16)
        if following == "0":
            return self._octal()
        if following and following in "123456789c":
            fail(ESCAPE)
        return super()._escaped_point()

    def _octal(self) -> int:
        """Read a backslash, 0 and one to three octal digits, at most 377."""
        self._at += 2
        start, most = self._at, 3 if self._text[self._at : self._at + 1] in tuple("0123") else 2
        while self._at < start + most and self._text[self._at : self._at + 1] in tuple("01234567"):
            self._at += 1
        return int(self._text[start : self._at], 8) if self._at > start else fail(ESCAPE)

    # -- classes

    def _perl_class(self) -> CharSet:
        letter = self._text[self._at + 1]
        self._at += 2
        return CharSet(_CLASSES[letter.lower()], negated=letter.isupper())

    def _unicode_class(self) -> CharSet:
        begin = self._at
        found = super()._unicode_class()
        if not found.categories:
            fail(CLASS_RANGE)
        name = self._text[begin + 2 : self._at].strip("{}")
        if name not in CATEGORIES or name == "C" or self._flags.fold:
            fail(f"{CLASS_RANGE}: {name} is not implemented{' without case' if self._flags.fold else ''}")
        return found

    def _class(self) -> CharSet:
        found = super()._class()
        return self._set(list(found.ranges), negated=found.negated)._replace(others=found.others)

    def _class_in_class(self) -> CharSet | None:
        if self._looking_at("["):
            fail("sets within sets are not implemented; write \\[ for a bracket")
        if self._looking_at("&&"):
            fail("&& in a set is not implemented; write \\&")
        if self._looking_at("\\"):
            following = self._text[self._at + 1 : self._at + 2]
            if following and following.lower() in _CLASSES:
                return self._perl_class()
            if following and following in "Qb":
                fail(ESCAPE)
        return super()._class_in_class()

    def _class_point(self) -> int:
        if self._looking_at("\\"):
            return self._escaped_point()
        return ord(self._next(MISSING_BRACKET))
