"""The automaton of a regular expression, which matches whole texts in linear time.

The nodes of the expression become instructions of a nondeterministic automaton. It is made deterministic while it
matches: a state consists of the possible next instructions and of what assertions need to know about the previous
character. The next state for a character is computed once and cached, so that a text mostly costs one look-up per
character.
"""

from __future__ import annotations

from refbroker.regex.characters import is_word
from refbroker.regex.program import Check, Fork, Program, Take
from refbroker.regex.syntax import Node

SIZE_LIMIT = 5_000
"""The most instructions of an automaton."""
CACHE_LIMIT = 200_000
"""The size at which the cache is cleared: instructions in states, and steps between states."""

_START, _LINE_END, _WORD, _OTHER = "start", "line end", "word", "other"
"""The classes of previous characters that assertions distinguish."""


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
        # Whether a repetition is lazy makes no difference for whole matches.
        program = Program(tree, SIZE_LIMIT, has_groups=False)
        self._instructions = program.instructions
        self._end = program.end
        self._start = _State(frozenset({program.start}), _START)
        self._checks = any(isinstance(one, Check) for one in self._instructions)
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
            if not isinstance(instruction, Take):
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
            if isinstance(instruction, Fork):
                following = instruction.next
            elif isinstance(instruction, Check) and _holds(instruction.kind, state.before, character):
                following = (instruction.next,)
            else:
                continue
            for index in following:
                if index not in reached:
                    reached.add(index)
                    waiting.append(index)
        return reached


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
