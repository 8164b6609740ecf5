"""Regular expressions in RE2's syntax, which Kafka's brokers use for patterns that clients send.

`compile_regex` reads an expression (`syntax`, `characters`) and makes an automaton of it (`automaton`), whose time is
linear in the length of the text whatever the expression is. Python's own `re` has another syntax, and expressions for
which it takes exponential time, so that a client could stop the broker with a single request.

Checked against RE2 itself, and against re2j 1.8, which is what Kafka uses: the descriptions of errors are re2j's.

Not implemented: captures and searches, since brokers only ask whether a whole text matches; Unicode's scripts
(`\\p{Greek}`), which Python's tables do not have.
"""

from __future__ import annotations

from refbroker.coordinators.regex.automaton import Automaton
from refbroker.coordinators.regex.errors import RegexError
from refbroker.coordinators.regex.syntax import parse

__all__ = ["Automaton", "RegexError", "compile_regex"]


def compile_regex(expression: str) -> Automaton:
    """Return what matches whole texts.

    Raises:
        RegexError: the expression is not valid, or too large.
    """
    return Automaton(parse(expression))
