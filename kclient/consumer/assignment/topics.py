"""The topics of a subscription: names, and patterns that match topics now and later.

A Python pattern is matched by the client, against whole names; a SubscriptionPattern is matched by the brokers.
Elsewhere: where names come from (`kclient.net.metadata`), and the effects of a change (`subscription`).
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
"""A topic's name, or a pattern that matches several."""


class TopicChoice(NamedTuple):
    """The arguments of a call to `subscribe`.

    Attributes:
        names: topic names, whether they exist or not.
        patterns: a topic's whole name has to match one of them.
        exclude: names and patterns of topics that are excluded from the patterns.
        with_internal: whether patterns match internal topics.
        regex: a pattern that the brokers match; excludes all others.
    """

    names: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[str | re.Pattern[str], ...] = ()
    with_internal: bool = False
    regex: str | None = None

    def matches(self, topic: str) -> bool:
        """Return whether a topic is chosen, by name or by pattern."""
        if topic in self.names:
            return True
        if not any(pattern.fullmatch(topic) for pattern in self.patterns):
            return False
        return not any(
            other == topic if isinstance(other, str) else other.fullmatch(topic) is not None for other in self.exclude
        )

    def select(self, known: Mapping[str, TopicInfo], before: Iterable[str]) -> tuple[str, ...]:
        """Return the chosen topics that exist, and all names.

        A topic that was selected before stays while brokers do not report it, for example without a leader.
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
    """Return the choice of a call to `subscribe`.

    Parameters:
        topics: names and patterns.
        exclude: names and patterns to exclude from the patterns.
        with_internal: whether patterns match internal topics.
        brokers_match: whether the brokers can match a SubscriptionPattern.

    Raises:
        TypeError: something is neither a name nor a pattern.
        ValueError: topics are excluded, and there is no pattern; or a SubscriptionPattern is not alone.
        IllegalStateError: the brokers would not match a SubscriptionPattern.
    """
    chosen, excluded_topics = _listed(topics), _listed(exclude)
    regexes = [one.pattern for one in (*chosen, *excluded_topics) if isinstance(one, SubscriptionPattern)]
    if regexes:
        return TopicChoice((), regex=_alone(regexes, chosen, excluded_topics, brokers_match=brokers_match))
    names = tuple(dict.fromkeys(one for one in chosen if isinstance(one, str)))
    patterns = tuple(one for one in chosen if isinstance(one, re.Pattern))
    if excluded_topics and not patterns:
        raise ValueError("exclude= excludes topics that a pattern matches, and there is no pattern")
    excluded = tuple(one for one in excluded_topics if not isinstance(one, SubscriptionPattern))
    return TopicChoice(names, patterns, excluded, with_internal)


def _alone(
    regexes: list[str], chosen: Sequence[Topic], excluded_topics: Sequence[Topic], *, brokers_match: bool
) -> str:
    if len(chosen) != 1 or excluded_topics:
        raise ValueError(
            "a SubscriptionPattern must be the only subscription; combine all patterns into one expression"
        )
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
