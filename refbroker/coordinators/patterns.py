"""Regular expressions that clients send: of topics to subscribe to, and of transactional ids to list."""

from __future__ import annotations

from kclient.errors import InvalidRegularExpressionError
from refbroker.coordinators.regex import Automaton, RegexError, compile_regex


def compile_pattern(what: str, pattern: str) -> Automaton:
    """Return what matches a pattern.

    Parameters:
        what: it is, for the error.

    Raises:
        InvalidRegularExpressionError: the pattern is not valid.
    """
    try:
        return compile_regex(pattern)
    except RegexError as error:
        raise InvalidRegularExpressionError(
            f"{what} `{pattern}` is not a valid regular expression: {error}."
        ) from error
