"""Regular expressions for what clients send, matched in time that grows with the length of the text.

`compile_regex` reads an expression in RE2's syntax (`syntax`, `characters`), which Kafka's brokers use for patterns of
clients, and makes an automaton of it (`program`, `automaton`). `JavaRegex` (`captures`) reads one in Java's syntax
(`java_syntax`), which Kafka uses for the rules that make names, and finds what its groups contain. Python's own `re`
has another syntax, and expressions for which it takes exponential time, so that a client could stop the broker with a
single request.

Checked against RE2 itself, against Java, and against re2j 1.8, which is what Kafka uses: the descriptions of errors are
re2j's.

Not implemented: Unicode's scripts (`\\p{Greek}`), which Python's tables do not have.
"""

from __future__ import annotations

from refbroker.regex.automaton import Automaton
from refbroker.regex.captures import JavaRegex, Match
from refbroker.regex.errors import RegexError
from refbroker.regex.syntax import parse

__all__ = ["Automaton", "JavaRegex", "Match", "RegexError", "compile_regex"]


def compile_regex(expression: str) -> Automaton:
    """Return what matches whole texts.

    Raises:
        RegexError: the expression is not valid, or too large.
    """
    return Automaton(parse(expression))
