"""The principals of clients, and the rules that derive a principal's name from the subject of a certificate.

Source: KIP-371 and Kafka's SslPrincipalMapper. The patterns are Python's, which differ from Java's in rare forms
only. A replacement that no connection could use is an error at the start; Kafka refuses each connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kclient.errors import ConfigError

NAME_LIMIT = 4096
"""The longest subject that rules are applied to, in characters: some patterns take very long for a long text."""

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_JAVA_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")
_REFERENCE = re.compile(r"\\(?P<escaped>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<wrong>[$\\])", re.DOTALL)


class Principal(NamedTuple):
    """Who a client is: a type, and a name. The type of every client is "User"."""

    type: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the principal of a text such as "User:anne", as the metadata log has it."""
        kind, _, name = text.partition(":")
        return cls(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


USER_TYPE = "User"
ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")
"""The principal of a client that has not proved who it is."""


class NoMatchingRuleError(Exception):
    """No rule applies to a subject, so the connection is refused."""


class _Rule(NamedTuple):
    """A pattern for the whole subject and what replaces it; `case` is L for lower case, U for upper case or empty."""

    pattern: re.Pattern[str]
    replacement: str
    case: str

    def apply(self, subject: str) -> str | None:
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.pattern.sub(lambda match: "".join(self._expand(match)), subject)
        return {"L": name.lower, "U": name.upper}.get(self.case, lambda: name)()

    def _expand(self, match: re.Match[str]) -> Iterator[str]:
        """Yield the parts of the replacement, with the groups that it refers to."""
        end = 0
        for reference in _REFERENCE.finditer(self.replacement):
            yield self.replacement[end : reference.start()]
            end = reference.end()
            if reference["escaped"] is not None:
                yield reference["escaped"]
            elif reference["name"] is not None:
                yield match[reference["name"]] or ""
            else:
                # Digits that make the number too large follow the group as text; a group that does not exist is text.
                digits = reference["number"]
                length = len(digits)
                while length > 1 and int(digits[:length]) > self.pattern.groups:
                    length -= 1
                number = int(digits[:length])
                yield (match[number] or "") + digits[length:] if number <= self.pattern.groups else reference[0]
        yield self.replacement[end:]


class PrincipalMapper:
    """The rules of `ssl.principal.mapping.rules`: the first that applies makes the name.

    Parameters:
        rules: `DEFAULT` or `RULE:pattern/replacement/[LU]`, separated by commas.

    Raises:
        ConfigError: a rule is malformed.
    """

    def __init__(self, rules: str) -> None:
        self._text = rules
        self._rules = [rule for found in _SPLITTER.finditer(rules.strip()) if (rule := _parse(found[1])) is not None]

    def principal(self, subject: str) -> Principal:
        """Return the principal of a client with this certificate.

        Parameters:
            subject: the subject's distinguished name.

        Raises:
            NoMatchingRuleError: no rule applies, or the name is too long.
        """
        if len(subject) > NAME_LIMIT:
            raise NoMatchingRuleError(f"the subject of the certificate has more than {NAME_LIMIT} characters")
        for rule in self._rules:
            name = subject if isinstance(rule, str) else rule.apply(subject)
            if name is not None:
                return Principal(USER_TYPE, name)
        raise NoMatchingRuleError(f'no rule of ssl.principal.mapping.rules={self._text} applies to "{subject}"')


def _parse(text: str) -> _Rule | str | None:
    """Return a rule, "DEFAULT", or None for an empty one."""
    if not text:
        return None
    found = _PARSER.match(text)
    if found is None or found.end() < len(text):
        raise ConfigError(
            f"ssl.principal.mapping.rules: {text!r} must be DEFAULT or RULE:pattern/replacement/, optionally followed "
            "by L or U"
        )
    if found[1] is not None:
        return found[1]
    try:
        pattern = re.compile(_JAVA_GROUP.sub("(?P<", found[2]), re.ASCII)
    except re.error as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {found[2]!r} is not a pattern: {error}") from error
    _check_replacement(pattern, found[3], text)
    return _Rule(pattern, found[3], found[4])


def _check_replacement(pattern: re.Pattern[str], replacement: str, rule: str) -> None:
    for reference in _REFERENCE.finditer(replacement):
        name, number = reference["name"], reference["number"]
        missing = name is not None and name not in pattern.groupindex
        missing |= number is not None and pattern.groups == 0 and int(number) > 0
        if missing or reference["wrong"] is not None:
            raise ConfigError(f"ssl.principal.mapping.rules: {reference[0]!r} is no group of the pattern in {rule!r}")
