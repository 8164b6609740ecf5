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
_ESCAPE = re.compile(r"\\(?:(?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)|(?P<letter>.))", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


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
    if len(tokens) < 3 or tokens[-1] != _END or tokens[1].text.lower() not in _FLAGS:
        raise ConfigError(f'{setting} must have the form: MODULE required NAME="VALUE" ...;')
    if _END in tokens[:-1]:
        raise ConfigError(f"{setting} must have one login module, not several")
    rest = tokens[2:-1]
    options: dict[str, Secret] = {}
    while rest:
        if len(rest) < 3 or rest[1] != _IS or rest[0].is_sign or rest[2].is_sign:
            raise ConfigError(f'{setting}: option {len(options) + 1} of the login module is not NAME="VALUE"')
        options[rest[0].text] = Secret(rest[2].text)
        rest = rest[3:]
    return JaasModule(tokens[0].text.rpartition(".")[2], options)


class _Token(NamedTuple):
    """A word or a string, or a sign between them."""

    text: str
    is_sign: bool = False


_IS, _END = _Token("=", is_sign=True), _Token(";", is_sign=True)


def _tokens(text: str, setting: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ConfigError(f"{setting}: a quotation mark at character {at + 1} is not closed")
        at = found.end()
        if found["word"] is not None:
            yield _Token(found["word"])
        elif found["sign"] is not None:
            yield _Token(found["sign"], is_sign=True)
        elif found["blank"] is None:
            quoted = found["double"] if found["double"] is not None else found["single"]
            yield _Token(_ESCAPE.sub(_meant, quoted))


def _meant(escape: re.Match[str]) -> str:
    letter = escape["letter"]
    return chr(int(escape["octal"], 8)) if letter is None else _LETTERS.get(letter, letter)
