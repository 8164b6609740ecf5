"""Log lines whose texts come from clients: nothing in a text begins another line, or controls a terminal.

Elsewhere: how many lines clients may cause (`limited_log`).
"""

from __future__ import annotations

import logging


def printable(text: str) -> str:
    """Return a text whose characters are printable; others are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


class LineFormatter(logging.Formatter):
    """A formatter that keeps each message in one line; tracebacks follow it as usual."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        record.message = printable(record.message)
        return super().formatMessage(record)
