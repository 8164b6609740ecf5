"""What is wrong with a regular expression."""

from __future__ import annotations


class RegexError(ValueError):
    """The expression cannot be read; the message describes why, in re2j's words."""
