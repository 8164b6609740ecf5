"""Regular expressions whose matching takes a bounded number of steps, for texts that come from clients.

Python's `re` may take exponential time, and nothing can interrupt it: it holds the GIL, and with it the broker. A
`BoundedRegex` has the syntax and the meaning of `re`, whose parser it uses, and counts the steps of its own matcher,
which backtracks like that of `re`. It is slow, and made for texts of some hundred characters.

Limitations: counted repetitions are copied, so that large ones are refused; letters differ by case as `str.lower` and
`str.upper` say. Elsewhere: regular expressions of RE2, which never backtrack (`refbroker.coordinators.regex`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

STEP_LIMIT = 200_000
"""The steps for one text; they take some tenths of a second."""
SIZE_LIMIT = 10_000
"""The instructions of one expression."""

Registers = tuple[int, ...]
"""The start and the end of each group, and the positions where rounds of loops began; -1 for none."""
Instruction = tuple[Any, ...]


class TooManyStepsError(Exception):
    """Matching a text was given up."""


class TooLargeError(ValueError):
    """The expression has too many instructions."""


@dataclass(frozen=True, slots=True)
class Match:
    """A match of an expression in a text."""

    text: str
    registers: Registers
    names: dict[str, int]

    def __getitem__(self, group: int | str) -> str | None:
        """Return the text of a group, None if it has not matched."""
        number = self.names[group] if isinstance(group, str) else group
        start, end = self.registers[2 * number : 2 * number + 2]
        return None if end < 0 else self.text[start:end]


class Steps:
    """The steps that are left for a text."""

    def __init__(self) -> None:
        self.left = STEP_LIMIT


class BoundedRegex:
    """An expression.

    Parameters:
        pattern: the expression, as `re` has compiled it.

    Attributes:
        text: the expression.
        groups: the number of groups.
        names: their numbers by name.

    Raises:
        TooLargeError: it has too many instructions.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.text = pattern.pattern
        self.groups = pattern.groups
        self.names = dict(pattern.groupindex)
        compiler = _Compiler(pattern)
        self._program = compiler.program
        self._no_registers = (-1,) * compiler.registers

    def fullmatch(self, text: str, steps: Steps) -> Match | None:
        """Return the match of a whole text.

        Raises:
            TooManyStepsError: no steps are left.
        """
        return self._match(text, 0, steps, is_full=True)

    def replace(self, text: str, replacement: Callable[[Match], str], steps: Steps, count: int = 0) -> str:
        """Return a text with its matches replaced, like Java's `Matcher.replaceAll`.

        Parameters:
            count: how many matches to replace; 0 for all.

        Raises:
            TooManyStepsError: no steps are left.
        """
        parts: list[str] = []
        copied = at = 0
        while at <= len(text) and not (count and len(parts) == 2 * count):
            found = self._match(text, at, steps)
            if found is None:
                at += 1
                continue
            start, end = found.registers[:2]
            parts += [text[copied:start], replacement(found)]
            copied = end
            at = end + (start == end)
        return "".join([*parts, text[copied:]])

    def _match(self, text: str, start: int, steps: Steps, *, is_full: bool = False) -> Match | None:
        found = _Run(self._program, text, steps).run(0, start, self._no_registers, is_full=is_full)
        return None if found is None else Match(text, found[1], self.names)


class _Op(enum.Enum):
    """What an instruction does."""

    TAKE = "read a character for which a predicate holds"
    SPLIT = "try one instruction, and then another one"
    JUMP = "continue at another instruction"
    SAVE = "write the position to a register"
    PROGRESS = "continue at one of two instructions: the first if the position is that in a register"
    AT = "check a condition on the position"
    REFERENCE = "read the text of a group again"
    IS_SET = "continue at another instruction unless a group has matched"
    LOOK = "check that a part matches around the position, or that it does not"
    ATOMIC = "read the first match of a part, and try no other one"
    ACCEPT = "end the match"


class _Run(NamedTuple):
    """The matching of one text."""

    program: list[Instruction]
    text: str
    steps: Steps

    def run(
        self, start: int, position: int, registers: Registers, *, is_full: bool = False
    ) -> tuple[int, Registers] | None:
        """Run from an instruction until ACCEPT; return the position and the registers, or None without a match.

        Parameters:
            is_full: whether to accept at the end of the text only.
        """
        program, text, steps = self.program, self.text, self.steps
        take, split, jump, save, accept = _Op.TAKE, _Op.SPLIT, _Op.JUMP, _Op.SAVE, _Op.ACCEPT
        others = [(start, position, registers)]
        while others:
            at, now, held = others.pop()
            while True:
                steps.left -= 1
                if steps.left < 0:
                    raise TooManyStepsError
                instruction = program[at]
                op = instruction[0]
                if op is take:
                    if now == len(text) or not instruction[1](text[now]):
                        break
                    at, now = at + 1, now + 1
                elif op is split:
                    others.append((instruction[2], now, held))
                    at = instruction[1]
                elif op is jump:
                    at = instruction[1]
                elif op is save:
                    register = instruction[1]
                    at, held = at + 1, (*held[:register], now, *held[register + 1 :])
                elif op is accept:
                    if is_full and now < len(text):
                        break
                    return now, held
                else:
                    after = self._rare(instruction, at, now, held)
                    if after is None:
                        break
                    at, now, held = after
        return None

    def _rare(self, instruction: Instruction, at: int, now: int, held: Registers) -> tuple[int, int, Registers] | None:
        """Carry out any other instruction; return the state after it, or None if it fails."""
        op, *arguments = instruction
        if op is _Op.PROGRESS:
            register, empty, other = arguments
            return (empty if held[register] == now else other), now, held
        if op is _Op.AT:
            return (at + 1, now, held) if arguments[0](self.text, now) else None
        if op is _Op.IS_SET:
            group, other = arguments
            return (at + 1 if held[2 * group + 1] >= 0 else other), now, held
        if op is _Op.REFERENCE:
            group, fold = arguments
            start, end = held[2 * group : 2 * group + 2]
            length = end - start
            self.steps.left -= max(length, 0)
            is_same = end >= 0 and fold(self.text[now : now + length]) == fold(self.text[start:end])
            return (at + 1, now + length, held) if is_same else None
        if op is _Op.ATOMIC:
            found = self.run(at + 1, now, held)
            return None if found is None else (arguments[0], *found)
        after, width, is_wanted = arguments
        found = self.run(at + 1, now - width, held) if now >= width else None
        if (found is not None) is not is_wanted:
            return None
        return after, now, held if found is None else found[1]


class _Compiler:
    """Makes the program of an expression.

    Attributes:
        program: its instructions.
        registers: the number of registers that it uses.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.registers = 2 * (pattern.groups + 1)
        self.program: list[Instruction] = []
        tree = sre_parser.parse(pattern.pattern, pattern.flags)
        self._add(_Op.SAVE, 0)
        self._sequence(tree, tree.state.flags)
        self._add(_Op.SAVE, 1)
        self._add(_Op.ACCEPT)

    def _add(self, *instruction: Any) -> int:
        """Append an instruction, and return its index."""
        if len(self.program) >= SIZE_LIMIT:
            raise TooLargeError("it is too large; use fewer or smaller counted repetitions")
        self.program.append(instruction)
        return len(self.program) - 1

    def _sequence(self, nodes: Any, flags: int) -> None:
        for op, argument in nodes:
            self._node(op, argument, flags)

    def _node(self, op: Any, argument: Any, flags: int) -> None:
        if (predicate := _predicate(op, argument, flags)) is not None:
            self._add(_Op.TAKE, predicate)
        elif op is sre.SUBPATTERN:
            group, added, removed, part = argument
            if group is not None:
                self._add(_Op.SAVE, 2 * group)
            self._sequence(part, (flags | added) & ~removed)
            if group is not None:
                self._add(_Op.SAVE, 2 * group + 1)
        elif op is sre.BRANCH:
            self._branch(argument[1], flags)
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            self._repeat(argument, flags, is_lazy=op is sre.MIN_REPEAT)
        elif op is sre.POSSESSIVE_REPEAT:
            self._part(_Op.ATOMIC, lambda: self._repeat(argument, flags, is_lazy=False))
        elif op is sre.ATOMIC_GROUP:
            self._part(_Op.ATOMIC, lambda: self._sequence(argument, flags))
        elif op is sre.AT:
            self._add(_Op.AT, _condition(argument, flags))
        elif op is sre.GROUPREF:
            self._add(_Op.REFERENCE, argument, str.lower if flags & re.IGNORECASE else str)
        elif op is sre.GROUPREF_EXISTS:
            self._exists(argument, flags)
        else:
            direction, part = argument
            width = part.getwidth()[0] if direction < 0 else 0
            self._part(_Op.LOOK, lambda: self._sequence(part, flags), width, op is sre.ASSERT)

    def _part(self, op: _Op, body: Callable[[], None], *arguments: Any) -> None:
        """Add an instruction that runs the part after it; its first argument is where to continue then."""
        first = self._add(op)
        body()
        self._add(_Op.ACCEPT)
        self.program[first] = (op, len(self.program), *arguments)

    def _branch(self, parts: list[Any], flags: int) -> None:
        ends = []
        for part in parts[:-1]:
            split = self._add(_Op.SPLIT)
            self._sequence(part, flags)
            ends.append(self._add(_Op.JUMP))
            self.program[split] = (_Op.SPLIT, split + 1, len(self.program))
        self._sequence(parts[-1], flags)
        for end in ends:
            self.program[end] = (_Op.JUMP, len(self.program))

    def _exists(self, argument: Any, flags: int) -> None:
        group, yes, no = argument
        check = self._add(_Op.IS_SET)
        self._sequence(yes, flags)
        end = self._add(_Op.JUMP)
        self.program[check] = (_Op.IS_SET, group, len(self.program))
        self._sequence(no or (), flags)
        self.program[end] = (_Op.JUMP, len(self.program))

    def _repeat(self, argument: Any, flags: int, *, is_lazy: bool) -> None:
        least, most, part = argument
        for _ in range(least):
            self._sequence(part, flags)
        if most is sre.MAXREPEAT:
            self._loop(part, flags, is_lazy=is_lazy)
            return
        splits = []
        for _ in range(most - least):
            splits.append(self._add(_Op.SPLIT))
            self._sequence(part, flags)
        for split in splits:
            self.program[split] = _split(split + 1, len(self.program), is_lazy=is_lazy)

    def _loop(self, part: Any, flags: int, *, is_lazy: bool) -> None:
        split = self._add(_Op.SPLIT)
        register, self.registers = self.registers, self.registers + 1
        self._add(_Op.SAVE, register)
        self._sequence(part, flags)
        after = self._add(_Op.PROGRESS) + 1
        # A round that has read nothing is the last one.
        self.program[after - 1] = (_Op.PROGRESS, register, after, split)
        self.program[split] = _split(split + 1, after, is_lazy=is_lazy)


def _split(body: int, after: int, *, is_lazy: bool) -> Instruction:
    return (_Op.SPLIT, after, body) if is_lazy else (_Op.SPLIT, body, after)


def _predicate(op: Any, argument: Any, flags: int) -> Callable[[str], bool] | None:
    """Return what holds for the characters that a node reads; None if it does not read a single character."""
    if op is sre.ANY:
        return (lambda _: True) if flags & re.DOTALL else (lambda character: character != "\n")
    if op is sre.LITERAL:
        return _ignoring_case(chr(argument).__eq__, flags)
    if op is sre.NOT_LITERAL:
        is_literal = _ignoring_case(chr(argument).__eq__, flags)
        return lambda character: not is_literal(character)
    if op is not sre.IN:
        return None
    is_negated = bool(argument) and argument[0][0] is sre.NEGATE
    tests = [_test(kind, value, flags) for kind, value in argument[is_negated:]]
    is_in = _ignoring_case(lambda character: any(test(character) for test in tests), flags)
    return lambda character: is_in(character) is not is_negated


def _ignoring_case(test: Callable[[str], bool], flags: int) -> Callable[[str], bool]:
    if not flags & re.IGNORECASE:
        return test
    return lambda character: test(character) or test(character.lower()) or test(character.upper())


def _test(kind: Any, value: Any, flags: int) -> Callable[[str], bool]:
    """Return whether an item of a set contains a character."""
    if kind is sre.LITERAL:
        return chr(value).__eq__
    if kind is sre.RANGE:
        first, last = chr(value[0]), chr(value[1])
        return lambda character: first <= character <= last
    classes = _ASCII_CLASSES if flags & re.ASCII else _UNICODE_CLASSES
    name = str(value).removeprefix("CATEGORY_")
    found = classes[name.removeprefix("NOT_")]
    return (lambda character: not found(character)) if name.startswith("NOT_") else found


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_UNICODE_CLASSES: dict[str, Callable[[str], bool]] = {"DIGIT": str.isdecimal, "SPACE": str.isspace, "WORD": _is_word}
_ASCII_CLASSES: dict[str, Callable[[str], bool]] = {
    "DIGIT": lambda character: character.isascii() and character.isdigit(),
    "SPACE": lambda character: character in " \t\n\r\f\v",
    "WORD": lambda character: character.isascii() and _is_word(character),
}


def _condition(kind: Any, flags: int) -> Callable[[str, int], bool]:
    """Return what checks a position in a text."""
    is_multiline = bool(flags & re.MULTILINE)
    is_word = (_ASCII_CLASSES if flags & re.ASCII else _UNICODE_CLASSES)["WORD"]

    def at_boundary(text: str, at: int) -> bool:
        return (at > 0 and is_word(text[at - 1])) is not (at < len(text) and is_word(text[at]))

    def at_line_end(text: str, at: int) -> bool:
        return at == len(text) or (text[at] == "\n" and (is_multiline or at == len(text) - 1))

    conditions: dict[Any, Callable[[str, int], bool]] = {
        sre.AT_BEGINNING: lambda text, at: at == 0 or (is_multiline and text[at - 1] == "\n"),
        sre.AT_BEGINNING_STRING: lambda text, at: at == 0,
        sre.AT_END: at_line_end,
        sre.AT_END_STRING: lambda text, at: at == len(text),
        sre.AT_BOUNDARY: at_boundary,
        sre.AT_NON_BOUNDARY: lambda text, at: not at_boundary(text, at),
    }
    return conditions[kind]
