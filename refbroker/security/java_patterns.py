"""Java's patterns and replacements, for Kafka's rules that make names.

Matching takes time in proportion to the length of a name, which is limited. A pattern that would need more is an error
at the start, and so is a replacement that no name could use; Kafka fails at each name. Elsewhere: the syntax of
patterns (`refbroker.regex.java_syntax`), the rules (`principals`, `kerberos_names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kclient.errors import ConfigError
from refbroker.regex import JavaRegex, Match, RegexError

NAME_LIMIT = 4096
"""The longest name that patterns are applied to, in characters."""

_REFERENCE = re.compile(
    r"\\(?P<escaped>.)|\$(?P<number>[0-9]+)|\$\{(?P<name>\w+)\}|(?P<wrong>[$\\])", re.DOTALL | re.ASCII
)
_MOST_DIGITS = 6
"""A group whose number has more digits does not exist."""


def compile_pattern(text: str, setting: str) -> JavaRegex:
    """Return a pattern.

    Parameters:
        setting: its name, for errors.

    Raises:
        ConfigError: the text is not a pattern, or has something that is not implemented.
    """
    try:
        return JavaRegex(text)
    except RegexError as error:
        raise ConfigError(f"{setting}: {text!r} is not a pattern: {error}") from error


class Replacement:
    """What replaces the matches of a pattern, with `$1` and `${name}` for its groups, as Java's `Matcher.replaceAll`.

    Parameters:
        pattern: the pattern.
        text: the replacement.
        setting: its name, for errors.
        keeps_unknown: whether a number without a group is text if the pattern has other groups, as in
            `ssl.principal.mapping.rules`; else it is an error, as in Java.

    Raises:
        ConfigError: the replacement refers to a group that does not exist.
    """

    def __init__(self, pattern: JavaRegex, text: str, setting: str, *, keeps_unknown: bool = False) -> None:
        self._pattern = pattern
        self._text = text
        for reference in _REFERENCE.finditer(text):
            name, number = reference["name"], reference["number"]
            missing = name is not None and name not in pattern.names
            if number is not None and not (keeps_unknown and pattern.groups):
                digits = (number if keeps_unknown else number[0]).lstrip("0")
                missing = len(digits) > _MOST_DIGITS or int(digits or 0) > pattern.groups
            if missing or reference["wrong"] is not None:
                raise ConfigError(f"{setting}: {reference[0]!r} is no group of the pattern {pattern.text!r}")

    def apply(self, name: str, count: int = 0) -> str:
        """Return a name with its matches replaced.

        Parameters:
            count: how many matches to replace; 0 for all.
        """
        parts: list[str] = []
        copied = at = 0
        while at <= len(name) and not (count and len(parts) >= count):
            found = self._pattern.search(name, at)
            if found is None:
                break
            start, end = found.spans[:2]
            parts.append(name[copied:start] + "".join(self._expand(found)))
            copied = end
            at = end + (start == end)
        return "".join([*parts, name[copied:]])

    def _expand(self, match: Match) -> Iterator[str]:
        """Yield the parts of the replacement, with the groups that it refers to."""
        end = 0
        for reference in _REFERENCE.finditer(self._text):
            yield self._text[end : reference.start()]
            end = reference.end()
            if reference["escaped"] is not None:
                yield reference["escaped"]
            elif reference["name"] is not None:
                yield match.group(self._pattern.names[reference["name"]]) or ""
            else:
                # Digits that make the number too large follow the group as text; a group that does not exist is text.
                digits = reference["number"]
                length = min(len(digits), _MOST_DIGITS)
                while length > 1 and int(digits[:length]) > self._pattern.groups:
                    length -= 1
                number = int(digits[:length])
                yield (match.group(number) or "") + digits[length:] if number <= self._pattern.groups else reference[0]
        yield self._text[end:]
