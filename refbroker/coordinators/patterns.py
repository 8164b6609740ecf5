"""Regular expressions from clients: for topics to subscribe to, and for transactional ids to list."""

from __future__ import annotations

from kclient.errors import InvalidRegularExpressionError
from refbroker.regex import Automaton, RegexError, compile_regex


def compile_pattern(what: str, pattern: str) -> Automaton:
    """Return the automaton of a pattern.

    Parameters:
        what: the kind of pattern, for the error message.

    Raises:
        InvalidRegularExpressionError: the pattern is not valid.
    """
    try:
        return compile_regex(pattern)
    except RegexError as error:
        raise InvalidRegularExpressionError(
            f"{what} `{pattern}` is not a valid regular expression: {error}."
        ) from error
