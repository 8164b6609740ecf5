"""Suggestions for unknown setting names: mistyped, misremembered, or the name of a topic setting used for a broker.

Names are compared by words, in order and as sets, because most wrong names consist of the words of the right one.
`transactional.id.timeout.ms` suggests `transactional.id.expiration.ms`, which has three of its four words, and not
`transaction.max.timeout.ms`, which is closer by letters. If no name is similar by words, the letters decide.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from functools import cache

from refbroker.settings.topic_table import BROKER_SYNONYMS

_SAME_WORD = 0.7
"""The similarity, from 0 to 1, from which two words count as the same word, mistyped."""
_UNITS = frozenset({"ms", "seconds", "minutes", "hours"})
"""Words that are easily confused although their letters differ."""


def nearest(name: str, names: Iterable[str], least: float = 0.6) -> str | None:
    """Return the name most similar to an unknown one, None if no name is similar enough.

    Parameters:
        name: the unknown name.
        names: the known names.
        least: the least similarity of a suggestion, from 0 to 1.
    """
    words = _words(name)
    scored = [(_similarity(words, _words(other)), _letters(name, other), other) for other in names]
    by_words = max(scored, default=None)
    if by_words is None or by_words[0] >= least:
        return None if by_words is None else by_words[2]
    by_letters = max(scored, key=lambda one: one[1])
    return by_letters[2] if by_letters[1] >= least else None


def broker_synonym(name: str) -> str | None:
    """Return the broker setting that is the default of a topic setting, None if it has no such default."""
    synonyms = BROKER_SYNONYMS.get(name)
    return synonyms[0][0] if synonyms else None


def _words(name: str) -> tuple[str, ...]:
    return tuple(re.split(r"[._]", name))


def _similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the similarity of two names, from 0 to 1: half by words in the same order, half by words in any order."""
    return (_in_order(one, other) + _in_any_order(one, other)) / (len(one) + len(other))


def _in_order(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how many words the names share in the same order; a mistyped word counts less than 1."""
    row = [0.0] * (len(other) + 1)
    for word in one:
        before = row
        row = [0.0]
        for index, candidate in enumerate(other):
            row.append(max(row[index], before[index + 1], before[index] + _word_similarity(word, candidate)))
    return row[-1]


def _in_any_order(one: Sequence[str], other: Sequence[str]) -> float:
    left, common = list(other), 0.0
    for word in one:
        best = max(left, key=lambda candidate: _word_similarity(word, candidate), default=None)
        if best is not None and _word_similarity(word, best):
            left.remove(best)
            common += _word_similarity(word, best)
    return common


@cache
def _word_similarity(one: str, other: str) -> float:
    if one in _UNITS and other in _UNITS:
        return 1.0 if one == other else _SAME_WORD
    similarity = 1.0 if one == other else _letters(one, other)
    return similarity if similarity >= _SAME_WORD else 0.0


def _letters(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()
