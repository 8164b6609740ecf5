"""Kafka's `sasl.jaas.config`: a login module and its options, in the syntax of Java.

Errors do not quote values, which may be passwords. Elsewhere: what the options mean (`kclient.config`,
`refbroker.security`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kclient.errors import ConfigError
from kclient.security.secret import Secret

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^'\\]|\\.)*)'"""
    r"""|(?P<sign>[=;])|(?P<word>[^\s=;"']+)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JaasModule(NamedTuple):
    """A login module: the last part of its class name, and its options."""

    name: str
    options: dict[str, Secret]

    def text(self, option: str) -> str | None:
        """Return an option that is no secret, None if it is missing."""
        value = self.options.get(option)
        return None if value is None else value.reveal()


def parse_jaas(config: Secret, setting: str) -> JaasModule:
    """Return the login module of a `sasl.jaas.config`.

    Parameters:
        setting: its name, for errors.

    Raises:
        ConfigError: it is malformed, or has several modules.
    """
    tokens = list(_tokens(config.reveal(), setting))
    if len(tokens) < 3 or tokens[-1] != "=;" or tokens[1].lower() not in _FLAGS:
        raise ConfigError(f'{setting} must have the form: MODULE required NAME="VALUE" ...;')
    if "=;" in tokens[:-1]:
        raise ConfigError(f"{setting} must have one login module, not several")
    rest = tokens[2:-1]
    options: dict[str, Secret] = {}
    while rest:
        if len(rest) < 3 or rest[1] != "==" or rest[2] == "==":
            raise ConfigError(f'{setting}: option {len(options) + 1} of the login module is not NAME="VALUE"')
        options[rest[0]] = Secret(rest[2])
        rest = rest[3:]
    return JaasModule(tokens[0].rpartition(".")[2], options)


def _tokens(text: str, setting: str) -> Iterator[str]:
    """Yield words and strings; signs as "==" and "=;", which no word can be."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConfigError(f"{setting}: a quotation mark at character {at + 1} is not closed")
        at = found.end()
        if found["word"] is not None:
            yield found["word"]
        elif found["sign"] is not None:
            yield f"={found['sign']}"
        elif found["blank"] is None:
            quoted = found["double"] if found["double"] is not None else found["single"]
            yield _ESCAPE.sub(lambda escape: _LETTERS.get(escape[1], escape[1]), quoted)
