"""The failure of a command that is not an error of Kafka's."""

from __future__ import annotations


class CommandError(Exception):
    """A command did not do all of its work; the message, which may have several lines, says what is missing."""
