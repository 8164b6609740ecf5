"""Checks of the arguments of admin calls, made before any request: a wrong type raises a TypeError that says what is
expected.

Elsewhere: the range of numbers, which the encoder checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from kclient._times import milliseconds
from kclient.types import TopicPartition

T = TypeVar("T")
V = TypeVar("V")
Check = Callable[[Any, str], T]
"""A function that takes the value and the name of the call for errors, and returns the checked value."""


def instance(given: object, kind: type[T], what: str) -> T:
    """Return a value of a type; a bool is not a number."""
    if not isinstance(given, kind) or (kind is int and isinstance(given, bool)):
        raise TypeError(f"{what} takes {_named(kind)}, not {given!r}")
    return given


def text(given: object, what: str) -> str:
    """Return a name."""
    return instance(given, str, what)


def number(given: object, what: str) -> int:
    """Return an integer: an offset, an id, a count."""
    return instance(given, int, what)


def optional(given: object, kind: type[T], what: str) -> T | None:
    """Return a value of a type, or None."""
    return None if given is None else instance(given, kind, what)


def duration(given: object, what: str) -> float:
    """Return a duration in seconds."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError(f"{what} takes seconds, not {given!r}")
    return float(given)


def moment(given: object, what: str) -> int:
    """Return a point in time in milliseconds since the epoch; a datetime without a zone is local time."""
    if isinstance(given, datetime):
        return milliseconds(given)
    if isinstance(given, bool) or not isinstance(given, int):
        raise TypeError(f"{what} takes a datetime, or milliseconds since the epoch, not {given!r}")
    return given


def several(given: T | Iterable[T], kind: type[T], what: str) -> list[T]:
    """Return values of a type as a list: several, or a single one. A string is one value."""
    if isinstance(given, kind):
        return [instance(given, kind, what)]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{what} takes {_named(kind)} or several, not {given!r}")
    return [instance(each, kind, what) for each in given]


def partition(given: object, what: str) -> TopicPartition:
    """Return a TopicPartition, also from a pair of topic and number."""
    if isinstance(given, tuple) and len(given) == 2:
        topic, index = given
        if isinstance(topic, str) and isinstance(index, int) and not isinstance(index, bool):
            return TopicPartition(topic, index)
    raise TypeError(f"{what} takes a TopicPartition(topic, partition), not {given!r}")


def partitions(given: Iterable[Any], what: str) -> list[TopicPartition]:
    """Return several partitions; a single one is a mistake that would be read as two."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{what} takes a list of TopicPartition(topic, partition), not {given!r}")
    return [partition(each, what) for each in given]


def mapping(given: Mapping[Any, Any], key: Check[T], value: Check[V], what: str) -> dict[T, V]:
    """Return a mapping whose keys and values pass a check each."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} takes a mapping, not {given!r}")
    return {key(each, what): value(found, what) for each, found in given.items()}


def _named(kind: type) -> str:
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    return {str: "a str", int: "an int", UUID: "a UUID"}.get(kind, f"{article} {kind.__name__}")
