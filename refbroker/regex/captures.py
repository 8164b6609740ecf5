"""Matching with captured groups, in time that grows with the text and the expression only (Pike's algorithm).

All ways to match advance together, a character at a time, in the order in which Java would try them. Of those that
reach an instruction, the first one continues, so that there are never more ways than instructions. Elsewhere: whether a
text matches, without groups (`automaton`).
"""

from __future__ import annotations

from typing import NamedTuple

from refbroker.regex.characters import is_word
from refbroker.regex.errors import RegexError
from refbroker.regex.java_syntax import parse_java
from refbroker.regex.program import Check, Fork, Program, Save, Take
from refbroker.regex.syntax import Group

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
        try:
            program = Program(Group(node, 0), SIZE_LIMIT, has_groups=True)
        except RegexError as error:
            raise RegexError(f"{error}; use fewer or smaller counted repetitions") from error
        self._program, self._start, self._end = program.instructions, program.start, program.end

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
                if isinstance(instruction, Take) and at < len(text) and instruction.chars.contains(text[at]):
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
            if isinstance(instruction, Fork):
                waiting += [(each, spans) for each in reversed(instruction.next)]
            elif isinstance(instruction, Save):
                slot = instruction.slot
                waiting.append((instruction.next, (*spans[:slot], at, *spans[slot + 1 :])))
            elif isinstance(instruction, Check) and _holds(instruction.kind, text, at):
                waiting.append((instruction.next, spans))


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
