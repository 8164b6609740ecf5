"""Matching with captured groups, in time that grows with the text and the expression only (Pike's algorithm).

All ways to match advance together, a character at a time, in the order in which Java would try them. Of those that
reach an instruction, the first one continues, so that there are never more ways than instructions. Elsewhere: whether a
text matches, without groups (`automaton`).
"""

from __future__ import annotations

from typing import NamedTuple

from refbroker.regex.characters import CharSet, is_word
from refbroker.regex.errors import RegexError
from refbroker.regex.java_syntax import parse_java
from refbroker.regex.syntax import Assertion, Characters, Choice, Group, Node, Repeat, Sequence

SIZE_LIMIT = 1_000
"""The most instructions of an expression; for a text, each takes a step per character at most."""


class Match(NamedTuple):
    """A match in a text.

    Attributes:
        text: the text.
        spans: start and end of the match, then of each group; -1 for a group that has not matched.
    """

    text: str
    spans: tuple[int, ...]

    def group(self, number: int) -> str | None:
        """Return the text of a group, None if it has not matched; 0 is the match."""
        start, end = self.spans[2 * number : 2 * number + 2]
        return None if end < 0 else self.text[start:end]


class _Take(NamedTuple):
    """The instruction to read a character of a set."""

    chars: CharSet
    next: int


class _Check(NamedTuple):
    """The instruction to continue if an assertion holds."""

    kind: str
    next: int


class _Save(NamedTuple):
    """The instruction to store the position."""

    slot: int
    next: int


class _Fork(NamedTuple):
    """The instruction to continue at each of `next`, the first one preferred; without any, the end."""

    next: tuple[int, ...]


_Instruction = _Take | _Check | _Save | _Fork
_Spans = tuple[int, ...]


class JavaRegex:
    """An expression in Java's syntax (`java_syntax`).

    Parameters:
        expression: the expression.

    Attributes:
        text: the expression.
        groups: the number of its groups.
        names: their numbers by name.

    Raises:
        RegexError: it is not valid, too large, or has something that is not implemented.
    """

    def __init__(self, expression: str) -> None:
        self.text = expression
        node, self.groups, self.names = parse_java(expression)
        self._program: list[_Instruction] = []
        end = self._emit(_Fork(()))
        self._end = end
        self._start = self._compile(Group(node, 0), end)

    def fullmatch(self, text: str) -> Match | None:
        """Return the match of a whole text."""
        return self._run(text, 0, is_full=True)

    def search(self, text: str, start: int) -> Match | None:
        """Return the first match that begins at a position or after it."""
        return self._run(text, start, is_full=False)

    def _run(self, text: str, start: int, *, is_full: bool) -> Match | None:
        program, end = self._program, self._end
        none = (-1,) * (2 * self.groups + 2)
        found: _Spans | None = None
        ways: dict[int, _Spans] = {}
        for at in range(start, len(text) + 1):
            if found is None and (at == start or not is_full):
                self._follow(self._start, none, text, at, ways)
            if not ways:
                break
            following: dict[int, _Spans] = {}
            for index, spans in ways.items():
                instruction = program[index]
                if index == end:
                    if is_full and at < len(text):
                        continue
                    # The ways after this one would be tried after it.
                    found = spans
                    break
                if isinstance(instruction, _Take) and at < len(text) and instruction.chars.contains(text[at]):
                    self._follow(instruction.next, spans, text, at + 1, following)
            ways = following
        return None if found is None else Match(text, found)

    def _follow(self, index: int, spans: _Spans, text: str, at: int, ways: dict[int, _Spans]) -> None:
        """Add the ways from an instruction that reads nothing, in their order; a way that others have taken ends."""
        waiting = [(index, spans)]
        while waiting:
            index, spans = waiting.pop()
            if index in ways:
                continue
            # Also instructions that read nothing are kept, so that each is followed once.
            ways[index] = spans
            instruction = self._program[index]
            if isinstance(instruction, _Fork):
                waiting += [(each, spans) for each in reversed(instruction.next)]
            elif isinstance(instruction, _Save):
                slot = instruction.slot
                waiting.append((instruction.next, (*spans[:slot], at, *spans[slot + 1 :])))
            elif isinstance(instruction, _Check) and _holds(instruction.kind, text, at):
                waiting.append((instruction.next, spans))

    # -- compilation of the tree

    def _emit(self, instruction: _Instruction) -> int:
        if len(self._program) >= SIZE_LIMIT:
            raise RegexError("the expression is too large; use fewer or smaller counted repetitions")
        self._program.append(instruction)
        return len(self._program) - 1

    def _compile(self, node: Node, following: int) -> int:
        """Add the instructions of a node, which continue at `following`; return the first of them."""
        if isinstance(node, Characters):
            return self._emit(_Take(node.chars, following))
        if isinstance(node, Assertion):
            return self._emit(_Check(node.kind, following))
        if isinstance(node, Group):
            inner = self._compile(node.node, self._emit(_Save(2 * node.number + 1, following)))
            return self._emit(_Save(2 * node.number, inner))
        if isinstance(node, Sequence):
            for part in reversed(node.nodes):
                following = self._compile(part, following)
            return following
        if isinstance(node, Choice):
            return self._emit(_Fork(tuple(self._compile(part, following) for part in node.nodes)))
        return self._compile_repeat(node, following)

    def _compile_repeat(self, node: Repeat, following: int) -> int:
        if node.maximum is None:
            loop = self._emit(_Fork(()))
            self._program[loop] = _fork(self._compile(node.node, loop), following, lazy=node.lazy)
            following = loop
        else:
            end = following
            for _ in range(node.maximum - node.minimum):
                following = self._emit(_fork(self._compile(node.node, following), end, lazy=node.lazy))
        for _ in range(node.minimum):
            following = self._compile(node.node, following)
        return following


def _fork(again: int, end: int, *, lazy: bool) -> _Fork:
    return _Fork((end, again) if lazy else (again, end))


_LAST_LINE_ENDS = ("\n", "\r\n", "\r", "\x85", "\u2028", "\u2029")


def _holds(kind: str, text: str, at: int) -> bool:
    """Return whether an assertion holds at a position of a text."""
    if kind == "A":
        return at == 0
    if kind == "z":
        return at == len(text)
    if kind == "Z":
        between = text[at - 1 : at] == "\r" and text[at : at + 1] == "\n"
        return at == len(text) or (text[at : at + 3] in _LAST_LINE_ENDS and not between)
    before, after = at > 0 and is_word(text[at - 1]), at < len(text) and is_word(text[at])
    return (before is not after) is (kind == "b")
