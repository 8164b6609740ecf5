"""The failure of a command that is no error of Kafka's."""

from __future__ import annotations


class CommandError(Exception):
    """A command did not do all that it was to do; the text, which may have several lines, says what is missing."""
