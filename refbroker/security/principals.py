"""The principals of clients, and the rules that derive a principal's name from the subject of a certificate.

Elsewhere: the names of Kerberos (`kerberos_names`). Source: KIP-371 and Kafka's SslPrincipalMapper.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kclient.errors import ConfigError
from refbroker.regex import JavaRegex
from refbroker.security.java_patterns import NAME_LIMIT, Replacement, compile_pattern

_SETTING = "ssl.principal.mapping.rules"
_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)


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

    pattern: JavaRegex
    replacement: Replacement
    case: str

    def apply(self, subject: str) -> str | None:
        if self.pattern.fullmatch(subject) is None:
            return None
        name = self.replacement.apply(subject)
        return {"L": name.lower, "U": name.upper}.get(self.case, lambda: name)()


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
    pattern = compile_pattern(found[2], _SETTING)
    return _Rule(pattern, Replacement(pattern, found[3], _SETTING, keeps_unknown=True), found[4])
