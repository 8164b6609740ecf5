"""Reads regular expressions in RE2's syntax.

An expression becomes a tree of nodes. Syntax, meaning and error messages are those of re2j 1.8, with two limits that
re2j does not have (`NESTING_LIMIT`, and the size of the automaton). Elsewhere: Java's syntax (`java_syntax`).
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from refbroker.regex.characters import CATEGORIES, LAST, PERL, POSIX, CharSet
from refbroker.regex.errors import RegexError

NESTING_LIMIT = 100
"""Groups within groups."""
REPEAT_LIMIT = 1000
"""The most that `{n,m}` may ask for."""

MISSING_PAREN = "missing closing )"
MISSING_BRACKET = "missing closing ]"
UNEXPECTED_PAREN = "regexp/syntax: internal error"  # re2j's words for a `)` too many
MISSING_ARGUMENT = "missing argument to repetition operator"
NESTED_REPEAT = "invalid nested repetition operator"
REPEAT_COUNT = "invalid repeat count"
TRAILING_BACKSLASH = "trailing backslash at end of expression"
ESCAPE = "invalid escape sequence"
CLASS_RANGE = "invalid character class range"
NAMED_CAPTURE = "invalid named capture"
DUPLICATE_NAME = "duplicate capture group name"
PERL_SYNTAX = "invalid or unsupported Perl syntax"


class Characters(NamedTuple):
    """One character of a set."""

    chars: CharSet


class Assertion(NamedTuple):
    """A condition on the characters on both sides: `A`, `z` at the text's ends, `^`, `$` at a line's, `b` or `B`."""

    kind: str


class Sequence(NamedTuple):
    """One node after the other."""

    nodes: list[Node]


class Choice(NamedTuple):
    """One of several nodes."""

    nodes: list[Node]


class Repeat(NamedTuple):
    """A repeated node; a maximum of None means no limit, and a lazy repetition prefers to end."""

    node: Node
    minimum: int
    maximum: int | None
    lazy: bool = False


class Group(NamedTuple):
    """A node whose text is captured, with its number from 1 on."""

    node: Node
    number: int


Node = Characters | Assertion | Sequence | Choice | Repeat | Group


class Flags(NamedTuple):
    """What `(?flags)` sets: fold case (i), `^` and `$` at lines (m), `.` matches a line's end (s)."""

    fold: bool = False
    multiline: bool = False
    dot_all: bool = False


class OpenGroup:
    """A group that is not closed yet, the flags to go back to, and its number if its text is captured."""

    def __init__(self, flags: Flags, number: int | None = None) -> None:
        self.flags = flags
        self.number = number
        self.branches: list[list[Node]] = [[]]

    def node(self) -> Node:
        branches: list[Node] = [nodes[0] if len(nodes) == 1 else Sequence(nodes) for nodes in self.branches]
        node = branches[0] if len(branches) == 1 else Choice(branches)
        return node if self.number is None else Group(node, self.number)


def parse(expression: str) -> Node:
    """Return the tree of an expression.

    Raises:
        RegexError: it is not valid.
    """
    return Parser(expression).parse()


def fail(reason: str) -> NoReturn:
    raise RegexError(reason)


class Parser:
    """Reads one expression.

    Attributes:
        names: the numbers of named groups.
        count: the number of groups whose text is captured.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        # Found once: a search from each `[:` of a text without an end would take quadratic time.
        self._last_posix_end = text.rfind(":]")
        self._flags = Flags()
        self._groups = [OpenGroup(self._flags)]
        self.names: dict[str, int] = {}
        self.count = 0

    def parse(self) -> Node:
        """Return the tree of the expression.

        Raises:
            RegexError: it is not valid.
        """
        after_repeat = False
        while self._at < len(self._text):
            character = self._text[self._at]
            if character in "*+?{":
                bounds = self._repetition()
                if bounds is not None:
                    self._repeat(*bounds, after_repeat=after_repeat)
                else:
                    self._at += 1
                    self._literal(ord(character))
                # Also behind a `{` that stands for itself, re2j takes another operator for a nested one.
                after_repeat = True
                continue
            after_repeat = False
            if character == "(":
                self._open()
            elif character == ")":
                self._close()
            elif character == "|":
                self._at += 1
                self._groups[-1].branches.append([])
            elif character == "[":
                self._add(Characters(self._class()))
            elif character == "\\":
                self._escape()
            else:
                self._at += 1
                self._single(character)
        if len(self._groups) > 1:
            fail(MISSING_PAREN)
        return self._groups[0].node()

    def _looking_at(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _next(self, reason: str) -> str:
        """Take a character; at the end of the expression it fails for this reason."""
        if self._at >= len(self._text):
            fail(reason)
        self._at += 1
        return self._text[self._at - 1]

    def _add(self, node: Node) -> None:
        self._groups[-1].branches[-1].append(node)

    def _literal(self, point: int) -> None:
        self._add(Characters(CharSet([(point, point)], folded=self._flags.fold)))

    def _single(self, character: str) -> None:
        if character == "^":
            self._add(Assertion("^" if self._flags.multiline else "A"))
        elif character == "$":
            self._add(Assertion("$" if self._flags.multiline else "z"))
        elif character == ".":
            self._add(Characters(CharSet([] if self._flags.dot_all else [(10, 10)], negated=True)))
        else:
            self._literal(ord(character))

    # -- repetition

    def _repetition(self) -> tuple[int, int | None] | None:
        """Take a repetition operator; None if a `{` is none, and stands for itself."""
        operator = self._text[self._at]
        if operator != "{":
            self._at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[operator]
        start = self._at
        self._at += 1
        minimum = maximum = self._number()
        if minimum is not None and self._looking_at(","):
            self._at += 1
            maximum = None
            if not self._looking_at("}") and (maximum := self._number()) is None:
                minimum = None
        if minimum is None or not self._looking_at("}"):
            self._at = start
            return None
        self._at += 1
        if max(minimum, maximum or 0) > REPEAT_LIMIT or (maximum is not None and minimum > maximum):
            fail(REPEAT_COUNT)
        return minimum, maximum

    def _number(self) -> int | None:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] in "0123456789":
            self._at += 1
        digits = self._text[start : self._at]
        # A number with a leading zero is none.
        return None if not digits or (len(digits) > 1 and digits[0] == "0") else int(digits[:9])

    def _repeat(self, minimum: int, maximum: int | None, *, after_repeat: bool) -> None:
        lazy = self._looking_at("?")
        self._at += lazy
        if after_repeat:
            fail(NESTED_REPEAT)
        branch = self._groups[-1].branches[-1]
        if not branch:
            fail(MISSING_ARGUMENT)
        branch[-1] = Repeat(branch[-1], minimum, maximum, lazy)

    # -- groups

    def _open(self) -> None:
        name = None
        if self._looking_at("(?P<") or self._looking_at("(?<"):
            name = self._name()
        elif self._looking_at("(?"):
            self._perl_flags()
            return
        else:
            self._at += 1
        self.count += 1
        if name is not None:
            self.names[name] = self.count
        self._push(self._flags, self.count)

    def _push(self, flags_outside: Flags, number: int | None = None) -> None:
        if len(self._groups) > NESTING_LIMIT:
            fail(f"more than {NESTING_LIMIT} groups within each other")
        self._groups.append(OpenGroup(flags_outside, number))

    def _close(self) -> None:
        if len(self._groups) == 1:
            fail(UNEXPECTED_PAREN)
        self._at += 1
        group = self._groups.pop()
        self._flags = group.flags
        self._add(group.node())

    def _name(self) -> str:
        start = self._text.index("<", self._at) + 1
        end = self._text.find(">", start)
        name = self._text[start:end] if end >= 0 else ""
        if not name or not all(character.isascii() and (character.isalnum() or character == "_") for character in name):
            fail(NAMED_CAPTURE)
        if name in self.names:
            fail(DUPLICATE_NAME)
        self._at = end + 1
        return name

    def _perl_flags(self) -> None:
        """Read `(?flags)`, which count to the end of the group, or `(?flags:`, which opens one."""
        self._at += 2
        names = {"i": "fold", "m": "multiline", "s": "dot_all"}
        changes: dict[str, bool] = {}
        value, complete = True, True
        while True:
            character = self._next(PERL_SYNTAX)
            if character in ":)" and complete:
                break
            if character == "-" and value:
                value = complete = False
            elif character in "imsU":
                complete = True
                if character in names:
                    changes[names[character]] = value
            else:
                fail(PERL_SYNTAX)
        outside = self._flags
        self._flags = self._flags._replace(**changes)
        if character == ":":
            self._push(outside)

    # -- escapes

    def _escape(self) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "Q":
            end = self._text.find("\\E", self._at)
            quoted = self._text[self._at + 2 : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._text)
            for character in quoted:
                self._literal(ord(character))
        elif following and following in "AbBz":
            self._at += 2
            self._add(Assertion(following))
        elif following and following in "pP":
            self._add(Characters(self._unicode_class()))
        elif following and following.lower() in PERL:
            self._add(Characters(self._perl_class()))
        else:
            self._literal(self._escaped_point())

    def _escaped_point(self) -> int:
        """Read an escape that stands for one character."""
        self._at += 1
        character = self._next(TRAILING_BACKSLASH)
        if character in "01234567":
            start = self._at - 1
            while self._at < start + 3 and self._text[self._at : self._at + 1] in tuple("01234567"):
                self._at += 1
            digits = self._text[start : self._at]
            # A single digit other than 0 would be a reference to a group, which RE2 does not have.
            return int(digits, 8) if digits[0] == "0" or len(digits) > 1 else fail(ESCAPE)
        if character == "x":
            return self._hexadecimal()
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and character.isalnum():
            fail(ESCAPE)
        return ord(character)

    def _hexadecimal(self) -> int:
        if self._looking_at("{"):
            end = self._text.find("}", self._at)
            digits = self._text[self._at + 1 : max(end, 0)]
            self._at = end + 1
        else:
            digits = self._text[self._at : self._at + 2]
            self._at += 2
            if len(digits) < 2:
                fail(ESCAPE)
        if not digits or not all(digit in "0123456789abcdefABCDEF" for digit in digits) or int(digits, 16) > LAST:
            fail(ESCAPE)
        return int(digits, 16)

    # -- classes

    def _perl_class(self) -> CharSet:
        letter = self._text[self._at + 1]
        self._at += 2
        return CharSet(PERL[letter.lower()], folded=self._flags.fold, negated=letter.isupper())

    def _unicode_class(self) -> CharSet:
        negated = self._text[self._at + 1] == "P"
        self._at += 2
        name = self._next(CLASS_RANGE)
        if name == "{":
            end = self._text.find("}", self._at)
            name = self._text[self._at : end] if end >= 0 else fail(CLASS_RANGE)
            self._at = end + 1
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        if name == "Any":
            return CharSet([(0, LAST)], negated=negated)
        if name not in CATEGORIES:
            may_be_script = len(name) > 2 and name.replace("_", "").isalpha()
            hint = f": {name} is no category, and scripts are not implemented" if may_be_script else ""
            fail(CLASS_RANGE + hint)
        return CharSet(categories=[name], folded=self._flags.fold, negated=negated)

    def _class(self) -> CharSet:
        self._at += 1
        negated = self._looking_at("^")
        self._at += negated
        ranges: list[tuple[int, int]] = []
        others: list[CharSet] = []
        first = True
        while first or not self._looking_at("]"):
            first = False
            other = self._class_in_class()
            if other is not None:
                others.append(other)
                continue
            low = high = self._class_point()
            if self._looking_at("-") and not self._looking_at("-]"):
                self._at += 1
                high = self._class_point()
                if high < low:
                    fail(CLASS_RANGE)
            ranges.append((low, high))
        self._at += 1
        return CharSet(ranges, others=others, folded=self._flags.fold, negated=negated)

    def _class_in_class(self) -> CharSet | None:
        # As re2j does, from the colon of `[:` on, so that `[[:]` is none.
        if self._at < self._last_posix_end and self._looking_at("[:"):
            end = self._text.index(":]", self._at + 1)
            name = self._text[self._at + 2 : end]
            self._at = end + 2
            plain = name.removeprefix("^")
            if plain not in POSIX:
                fail(CLASS_RANGE)
            return CharSet(POSIX[plain], folded=self._flags.fold, negated=plain != name)
        if self._looking_at("\\"):
            following = self._text[self._at + 1 : self._at + 2]
            if following and following in "pP":
                return self._unicode_class()
            if following and following.lower() in PERL:
                return self._perl_class()
        return None

    def _class_point(self) -> int:
        if self._looking_at("\\"):
            return self._escaped_point()
        return ord(self._next(MISSING_BRACKET))


_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
