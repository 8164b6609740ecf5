"""The automaton of a regular expression, which matches whole texts in linear time.

The nodes of the expression become instructions of a nondeterministic automaton. It is made deterministic while it
matches: a state consists of the possible next instructions and of what assertions need to know about the previous
character. The next state for a character is computed once and cached, so that a text mostly costs one look-up per
character.
"""

from __future__ import annotations

from typing import NamedTuple

from refbroker.regex.characters import CharSet, is_word
from refbroker.regex.errors import RegexError
from refbroker.regex.syntax import Assertion, Characters, Choice, Group, Node, Repeat, Sequence

SIZE_LIMIT = 5_000
"""The most instructions of an automaton; nested repetitions can need more, and are refused."""
WORK_LIMIT = 10 * SIZE_LIMIT
"""The most nodes to compile, repetitions counted: repetitions of something empty need no instructions."""
CACHE_LIMIT = 200_000
"""The size at which the cache is cleared: instructions in states, and steps between states."""

_START, _LINE_END, _WORD, _OTHER = "start", "line end", "word", "other"
"""The classes of previous characters that assertions distinguish."""


class _Take(NamedTuple):
    """The instruction to read a character of a set and continue at `next`."""

    chars: CharSet
    next: int


class _Check(NamedTuple):
    """The instruction to continue at `next` if an assertion holds."""

    kind: str
    next: int


class _Fork(NamedTuple):
    """The instruction to continue at each of `next`; without any, the end of the expression."""

    next: tuple[int, ...]


_Instruction = _Take | _Check | _Fork


class _State:
    """A state between two characters.

    Attributes:
        instructions: the indexes of the possible next instructions.
        before: the class of the previous character, for assertions.
        steps: the next state for each character, as far as it was computed.
    """

    __slots__ = ("before", "instructions", "steps")

    def __init__(self, instructions: frozenset[int], before: str) -> None:
        self.instructions = instructions
        self.before = before
        self.steps: dict[str, _State] = {}


class Automaton:
    """The automaton of one expression.

    Parameters:
        tree: the parsed expression.

    Raises:
        RegexError: the expression is too large.
    """

    def __init__(self, tree: Node) -> None:
        self._instructions: list[_Instruction] = []
        self._compiled = 0
        self._end = self._emit(_Fork(()))
        start = self._compile(tree, self._end)
        self._start = _State(frozenset({start}), _START)
        self._checks = any(isinstance(one, _Check) for one in self._instructions)
        self._states: dict[tuple[frozenset[int], str], _State] = {}
        self._remembered = 0

    def fullmatch(self, text: str) -> bool:
        """Return whether the expression matches the whole of a text."""
        state = self._start
        for character in text:
            following = state.steps.get(character)
            state = self._step(state, character) if following is None else following
            if not state.instructions:
                return False
        return self._end in self._reached(state, "")

    def _step(self, state: _State, character: str) -> _State:
        found = set()
        # A repeated set occurs in many instructions, and a large one takes long to search.
        contained: dict[int, bool] = {}
        for index in self._reached(state, character):
            instruction = self._instructions[index]
            if not isinstance(instruction, _Take):
                continue
            chars = instruction.chars
            if id(chars) not in contained:
                contained[id(chars)] = chars.contains(character)
            if contained[id(chars)]:
                found.add(instruction.next)
        if self._remembered >= CACHE_LIMIT:
            self._remembered = 0
            self._states.clear()
            self._start.steps.clear()
        key = (frozenset(found), _kind(character) if self._checks else _OTHER)
        following = self._states.get(key)
        if following is None:
            following = self._states[key] = _State(*key)
            self._remembered += len(found)
        self._remembered += 1
        state.steps[character] = following
        return following

    def _reached(self, state: _State, character: str) -> set[int]:
        """Return the instructions that a state reaches before it reads `character`, which is empty at the end."""
        waiting, reached = list(state.instructions), set(state.instructions)
        while waiting:
            instruction = self._instructions[waiting.pop()]
            if isinstance(instruction, _Fork):
                following = instruction.next
            elif isinstance(instruction, _Check) and _holds(instruction.kind, state.before, character):
                following = (instruction.next,)
            else:
                continue
            for index in following:
                if index not in reached:
                    reached.add(index)
                    waiting.append(index)
        return reached

    # -- compilation of the tree

    def _emit(self, instruction: _Instruction) -> int:
        if len(self._instructions) >= SIZE_LIMIT:
            raise RegexError("the expression is too large")
        self._instructions.append(instruction)
        return len(self._instructions) - 1

    def _compile(self, node: Node, following: int) -> int:
        """Add the instructions of a node, which continue at the instruction `following`; return the first of them."""
        self._compiled += 1
        if self._compiled > WORK_LIMIT:
            raise RegexError("the expression is too large")
        # Whether a repetition is lazy makes no difference for whole matches.
        if isinstance(node, Characters):
            return self._emit(_Take(node.chars, following))
        if isinstance(node, Group):
            return self._compile(node.node, following)
        if isinstance(node, Assertion):
            return self._emit(_Check(node.kind, following))
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
            self._instructions[loop] = _Fork((self._compile(node.node, loop), following))
            following = loop
        else:
            end = following
            for _ in range(node.maximum - node.minimum):
                following = self._emit(_Fork((self._compile(node.node, following), end)))
        for _ in range(node.minimum):
            following = self._compile(node.node, following)
        return following


def _kind(character: str) -> str:
    return _LINE_END if character == "\n" else _WORD if is_word(character) else _OTHER


def _holds(kind: str, before: str, character: str) -> bool:
    """Return whether an assertion holds between the previous and the next character, which is empty at the end."""
    if kind == "A":
        return before == _START
    if kind == "z":
        return not character
    if kind == "^":
        return before in (_START, _LINE_END)
    if kind == "$":
        return character in ("", "\n")
    at_boundary = (before == _WORD) is not (bool(character) and is_word(character))
    return at_boundary is (kind == "b")
