"""The instructions of a regular expression, which both ways of matching follow.

Elsewhere: whether a text matches (`automaton`), and what its groups contain (`captures`).
"""

from __future__ import annotations

from typing import NamedTuple

from refbroker.regex.characters import CharSet
from refbroker.regex.errors import RegexError
from refbroker.regex.syntax import Assertion, Characters, Choice, Group, Node, Repeat, Sequence

WORK_PER_INSTRUCTION = 10
"""The most nodes to compile for each instruction that is allowed, repetitions counted: repetitions of something empty
need no instructions.
"""


class Take(NamedTuple):
    """The instruction to read a character of a set and continue at `next`."""

    chars: CharSet
    next: int


class Check(NamedTuple):
    """The instruction to continue at `next` if an assertion holds."""

    kind: str
    next: int


class Save(NamedTuple):
    """The instruction to store the position."""

    slot: int
    next: int


class Fork(NamedTuple):
    """The instruction to continue at each of `next`, the first one preferred; without any, the end."""

    next: tuple[int, ...]


Instruction = Take | Check | Save | Fork


class Program:
    """The instructions of an expression.

    Parameters:
        tree: the expression.
        size_limit: the most instructions; nested repetitions can need more, and are refused.
        has_groups: whether to store where groups begin and end.

    Attributes:
        instructions: by index.
        start, end: the first one, and the one that is reached when everything has matched.

    Raises:
        RegexError: the expression is too large.
    """

    def __init__(self, tree: Node, size_limit: int, *, has_groups: bool) -> None:
        self.instructions: list[Instruction] = []
        self._size_limit = size_limit
        self._has_groups = has_groups
        self._compiled = 0
        self.end = self._emit(Fork(()))
        self.start = self._compile(tree, self.end)

    def _emit(self, instruction: Instruction) -> int:
        if len(self.instructions) >= self._size_limit:
            raise RegexError("the expression is too large")
        self.instructions.append(instruction)
        return len(self.instructions) - 1

    def _compile(self, node: Node, following: int) -> int:
        """Add the instructions of a node, which continue at the instruction `following`; return the first of them."""
        self._compiled += 1
        if self._compiled > WORK_PER_INSTRUCTION * self._size_limit:
            raise RegexError("the expression is too large")
        if isinstance(node, Characters):
            return self._emit(Take(node.chars, following))
        if isinstance(node, Assertion):
            return self._emit(Check(node.kind, following))
        if isinstance(node, Group):
            return self._compile_group(node, following)
        if isinstance(node, Sequence):
            for part in reversed(node.nodes):
                following = self._compile(part, following)
            return following
        if isinstance(node, Choice):
            return self._emit(Fork(tuple(self._compile(part, following) for part in node.nodes)))
        return self._compile_repeat(node, following)

    def _compile_group(self, node: Group, following: int) -> int:
        if not self._has_groups:
            return self._compile(node.node, following)
        inner = self._compile(node.node, self._emit(Save(2 * node.number + 1, following)))
        return self._emit(Save(2 * node.number, inner))

    def _compile_repeat(self, node: Repeat, following: int) -> int:
        if node.maximum is None:
            loop = self._emit(Fork(()))
            self.instructions[loop] = _fork(self._compile(node.node, loop), following, lazy=node.lazy)
            following = loop
        else:
            end = following
            for _ in range(node.maximum - node.minimum):
                following = self._emit(_fork(self._compile(node.node, following), end, lazy=node.lazy))
        for _ in range(node.minimum):
            following = self._compile(node.node, following)
        return following


def _fork(again: int, end: int, *, lazy: bool) -> Fork:
    return Fork((end, again) if lazy else (again, end))
