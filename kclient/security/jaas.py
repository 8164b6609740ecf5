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
    r"""
    (?P<blank> [\0-\x20]+ | //[^\n\r]* | /\*(?:.*?\*/|.*) | /[^*/]?[^\n\r]* )
    | (?P<number> -?(?=[0-9.])[0-9]*(?:\.[0-9]*)? )
    | (?P<word> [A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\-\xa0-\U0010ffff]* )
    | "(?P<double>(?:\\(?:.|\Z)|[^"\\\n\r])*)(?P<double_end>"?)
    | '(?P<single>(?:\\(?:.|\Z)|[^'\\\n\r])*)(?P<single_end>'?)
    | (?P<sign> . )
    """,
    re.DOTALL | re.VERBOSE,
)
"""What Java's StreamTokenizer makes of Kafka's settings for it: a slash begins a comment, a word does not begin with a
digit, a point or a hyphen, and a string ends with its line at the latest.
"""
_ESCAPE = re.compile(r"\\(?:(?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)|(?P<letter>.)|\Z)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_AFTER_THE_END = "\uffff"
"""What Java makes of a backslash at the end of the text."""


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
    tokens = list(_tokens(config.reveal()))
    texts = [token.text for token in tokens]
    if len(tokens) < 3 or tokens[-1].sign != _END or texts[0] is None or (texts[1] or "").lower() not in _FLAGS:
        unclosed = [token.unclosed_at for token in tokens if token.unclosed_at is not None]
        if unclosed:
            raise ConfigError(f"{setting}: a quotation mark at character {unclosed[0] + 1} is not closed in its line")
        raise ConfigError(f'{setting} must have the form: MODULE required NAME="VALUE" ...;')
    if any(token.sign == _END for token in tokens[:-1]):
        raise ConfigError(f"{setting} must have one login module, not several")
    rest = tokens[2:-1]
    options: dict[str, Secret] = {}
    while rest:
        name, value = rest[0].text, rest[2].text if len(rest) > 2 else None
        if name is None or value is None or rest[1].sign != _IS:
            raise ConfigError(
                f'{setting}: option {len(options) + 1} of the login module is not NAME="VALUE"; only words need no '
                "quotation marks"
            )
        options[name] = Secret(value)
        rest = rest[3:]
    return JaasModule(texts[0].rpartition(".")[2], options)


class _Token(NamedTuple):
    """A token: a word or a string has a text, a sign is a character, and a number has neither, as in Java.

    Attributes:
        unclosed_at: where a string begins that is not closed.
    """

    text: str | None = None
    sign: str | None = None
    unclosed_at: int | None = None

    def __repr__(self) -> str:
        return "_Token([hidden])"


_IS, _END = "=", ";"


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found["word"] is not None:
            yield _Token(found["word"])
        elif found["sign"] is not None:
            yield _Token(sign=found["sign"])
        elif found["number"] is not None:
            yield _Token()
        elif found["blank"] is None:
            kind = "double" if found["double"] is not None else "single"
            yield _Token(_ESCAPE.sub(_meant, found[kind]), unclosed_at=None if found[f"{kind}_end"] else found.start())


def _meant(escape: re.Match[str]) -> str:
    letter, octal = escape["letter"], escape["octal"]
    if octal is not None:
        return chr(int(octal, 8))
    return _AFTER_THE_END if letter is None else _LETTERS.get(letter, letter)
