"""The rules that make a user's name of a Kerberos principal: `sasl.kerberos.principal.to.local.rules`.

A rule is DEFAULT, which takes the first component of a principal of the default realm, or
`RULE:[n:FORMAT](PATTERN)s/FROM/TO/g/L`: for principals of n components, `$0` of the format is the realm and `$1`, `$2`
are the components; the pattern must match the result, in which TO replaces FROM. Elsewhere: patterns (`java_patterns`).
Source: Kafka's KerberosName, KerberosRule and KerberosShortNamer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kclient.errors import ConfigError
from refbroker.regex import JavaRegex
from refbroker.security.java_patterns import NAME_LIMIT, Replacement, compile_pattern
from refbroker.security.principals import NoMatchingRuleError

_SETTING = "sasl.kerberos.principal.to.local.rules"
_DEFAULT = "DEFAULT"
_RULE = re.compile(
    r"RULE:\[(?P<count>\d+):(?P<format>[^\]]*)](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_NAME = re.compile(r"(?P<service>[^/@]*)(?:/(?P<host>[^/@]*))?@(?P<realm>[^/@]*)")
_PARAMETER = re.compile(r"\$(\d*)")
_NOT_SIMPLE = re.compile("[/@]")


class _Rule(NamedTuple):
    """A rule; `default_realm` is not None for DEFAULT, whose other fields do not matter.

    `case` is L for lower case, U for upper case or empty.
    """

    text: str
    default_realm: str | None = None
    components: int = 0
    form: str = ""
    match: JavaRegex | None = None
    replacement: Replacement | None = None
    replaces_all: bool = False
    case: str = ""

    def apply(self, parts: list[str]) -> str | None:
        """Return the user's name; None if the rule does not apply.

        Parameters:
            parts: the realm, and the components.

        Raises:
            NoMatchingRuleError: the rule applies, and does not make a name.
        """
        name = self._name(parts)
        if name is None:
            return None
        if _NOT_SIMPLE.search(name):
            raise NoMatchingRuleError(f"{name!r} is no simple name after the rule {self.text} of {_SETTING}")
        return {"L": name.lower, "U": name.upper}.get(self.case, lambda: name)()

    def _name(self, parts: list[str]) -> str | None:
        if self.default_realm is not None:
            return parts[1] if parts[0] == self.default_realm else None
        if len(parts) - 1 != self.components:
            return None
        base = _PARAMETER.sub(lambda parameter: parts[int(parameter[1])], self.form)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        return base if self.replacement is None else self.replacement.apply(base, 0 if self.replaces_all else 1)


class KerberosNames:
    """The rules of a listener: the first that applies makes the name.

    Parameters:
        rules: the rules.
        default_realm: the realm of DEFAULT.

    Raises:
        ConfigError: a rule is malformed.
    """

    def __init__(self, rules: Iterable[str], default_realm: str) -> None:
        self._rules = [_parse(rule, default_realm) for rule in rules]

    def user(self, principal: str) -> str:
        """Return the name of a user.

        Parameters:
            principal: the principal, as "anne@EXAMPLE.COM" or "web/host@EXAMPLE.COM".

        Raises:
            NoMatchingRuleError: no rule applies, or the principal is malformed.
        """
        if len(principal) > NAME_LIMIT:
            raise NoMatchingRuleError(f"the principal has more than {NAME_LIMIT} characters")
        found = _NAME.fullmatch(principal)
        if found is None:
            if "@" in principal:
                raise NoMatchingRuleError(f"{principal!r} is not a principal with one or two components and a realm")
            return principal
        parts = [found["realm"], found["service"]] + ([] if found["host"] is None else [found["host"]])
        rules = ",".join(rule.text for rule in self._rules)
        for rule in self._rules:
            name = rule.apply(parts)
            if name is not None:
                return name
        raise NoMatchingRuleError(f"no rule of {_SETTING}={rules} applies to {principal!r}")


def _parse(text: str, default_realm: str) -> _Rule:
    if text == _DEFAULT:
        return _Rule(text, default_realm)
    found = _RULE.fullmatch(text)
    if found is None:
        raise ConfigError(f"{_SETTING}: {text!r} must be DEFAULT or RULE:[n:FORMAT](PATTERN)s/FROM/TO/g/L")
    components = int(found["count"])
    for parameter in _PARAMETER.finditer(found["format"]):
        if not parameter[1] or int(parameter[1]) > components:
            raise ConfigError(f"{_SETTING}: {parameter[0]!r} is no component of the rule {text!r}")
    source = found["from"]
    pattern = None if source is None else compile_pattern(source, _SETTING)
    return _Rule(
        text,
        components=components,
        form=found["format"],
        match=None if found["match"] is None else compile_pattern(found["match"], _SETTING),
        replacement=None if pattern is None else Replacement(pattern, found["to"], _SETTING),
        replaces_all=found["all"] is not None,
        case=found["case"] or "",
    )
