"""Regular expressions that clients send: of topics to subscribe to, and of transactional ids to list.

They come from the wire, so that only RE2 may run them, whose time is linear in the length of what it looks at. It
comes with google-re2, an extra (`pip install kclient[regex]`); who sends a pattern to a broker without it gets
INVALID_REGULAR_EXPRESSION with that reason.
"""

from __future__ import annotations

import importlib
from typing import Any

from kclient.errors import InvalidRegularExpressionError


def compile_pattern(what: str, pattern: str) -> Any:
    """A pattern that RE2 can run.

    Parameters:
        what: it is, for the error.

    Raises:
        InvalidRegularExpressionError: RE2 cannot read it, or is not there.
    """
    try:
        re2 = importlib.import_module("re2")
    except ImportError as error:
        raise InvalidRegularExpressionError(
            f"{what} `{pattern}` cannot be used: this broker runs without google-re2, which it needs for "
            "regular expressions. Install kclient[regex] on the broker, or go by names."
        ) from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRegularExpressionError(f"{what} `{pattern}` is not a valid regular expression: {text}.") from error
