"""Which topics a subscription means: names, and patterns that name whatever matches, now or later.

A pattern is Python's own and matches here, in the client, against whole names; or it is a SubscriptionPattern, which
the brokers match. Elsewhere: where names come from (`kclient.net.metadata`), and what follows when they change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kclient.errors import IllegalStateError, UnknownTopicOrPartitionError
from kclient.types import SubscriptionPattern

if TYPE_CHECKING:
    from kclient.net.metadata import TopicInfo

Topic = str | re.Pattern[str] | SubscriptionPattern
"""A topic's name, or a pattern that names several."""


class TopicChoice(NamedTuple):
    """What a call to `subscribe` asks for.

    Attributes:
        names: of topics, whether they exist or not.
        patterns: of which a topic's whole name has to match one.
        exclude: names and patterns that do not count as matching.
        with_internal: whether patterns match the brokers' own topics.
        regex: a pattern that the brokers match; it stands alone.
    """

    names: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[str | re.Pattern[str], ...] = ()
    with_internal: bool = False
    regex: str | None = None

    def matches(self, topic: str) -> bool:
        """Whether a topic is meant, by name or by pattern."""
        if topic in self.names:
            return True
        if not any(pattern.fullmatch(topic) for pattern in self.patterns):
            return False
        return not any(
            other == topic if isinstance(other, str) else other.fullmatch(topic) is not None for other in self.exclude
        )

    def select(self, known: Mapping[str, TopicInfo], before: Iterable[str]) -> tuple[str, ...]:
        """The topics that are meant, out of those that exist; the names in any case.

        One that was selected before stays while a broker cannot tell of it, as when it has no leader.
        """
        kept = set(before)
        found = [
            name
            for name, info in known.items()
            if (info.error is None or (name in kept and not isinstance(info.error, UnknownTopicOrPartitionError)))
            and (self.with_internal or not info.is_internal)
            and self.matches(name)
        ]
        return tuple(dict.fromkeys((*self.names, *sorted(found))))

    def __str__(self) -> str:
        if self.regex is not None:
            return f"/{self.regex}/"
        text = ", ".join((*self.names, *(f"/{pattern.pattern}/" for pattern in self.patterns)))
        without = ", ".join(one if isinstance(one, str) else f"/{one.pattern}/" for one in self.exclude)
        return f"{text} without {without}" if without else text


def choose(
    topics: Topic | Iterable[Topic],
    *,
    exclude: Topic | Iterable[Topic] = (),
    with_internal: bool = False,
    brokers_match: bool = False,
) -> TopicChoice:
    """Read what `subscribe` was given.

    Parameters:
        topics: names and patterns.
        exclude: what patterns leave out.
        with_internal: whether patterns match the brokers' own topics.
        brokers_match: whether there are brokers to match a SubscriptionPattern.

    Raises:
        TypeError: something is neither a name nor a pattern.
        ValueError: topics are excluded, and there is no pattern; or a SubscriptionPattern does not stand alone.
        IllegalStateError: nobody would match a SubscriptionPattern.
    """
    chosen, left_out = _listed(topics), _listed(exclude)
    regexes = [one.pattern for one in (*chosen, *left_out) if isinstance(one, SubscriptionPattern)]
    if regexes:
        return TopicChoice((), regex=_alone(regexes, chosen, left_out, brokers_match=brokers_match))
    names = tuple(dict.fromkeys(one for one in chosen if isinstance(one, str)))
    patterns = tuple(one for one in chosen if isinstance(one, re.Pattern))
    if left_out and not patterns:
        raise ValueError("exclude= leaves out topics that a pattern matches, and there is no pattern")
    excluded = tuple(one for one in left_out if not isinstance(one, SubscriptionPattern))
    return TopicChoice(names, patterns, excluded, with_internal)


def _alone(regexes: list[str], chosen: Sequence[Topic], left_out: Sequence[Topic], *, brokers_match: bool) -> str:
    if len(chosen) != 1 or left_out:
        raise ValueError("a SubscriptionPattern is subscribed to alone; put everything into the one expression")
    if not brokers_match:
        raise IllegalStateError(
            'brokers match a SubscriptionPattern for a group with group_protocol="consumer"; use re.compile(...), '
            "which the client matches"
        )
    return regexes[0]


def _listed(topics: Topic | Iterable[Topic]) -> tuple[Topic, ...]:
    listed: tuple[Any, ...] = (topics,) if isinstance(topics, str | re.Pattern | SubscriptionPattern) else tuple(topics)
    for one in listed:
        text = one.pattern if isinstance(one, re.Pattern | SubscriptionPattern) else one
        if not isinstance(text, str) or not text:
            raise TypeError(
                f"a topic is a name or a compiled pattern, not {one!r} (several: Consumer('a', 'b'), "
                "subscribe(['a', re.compile('b.*')]))"
            )
    return listed
