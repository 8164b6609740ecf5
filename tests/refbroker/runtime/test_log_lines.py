"""What is logged stays in its line."""

from __future__ import annotations

import logging

import pytest

from refbroker.runtime.log_lines import LineFormatter, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Zoë's group", "Zoë's group"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x1b[2J\x00\u202e", "\\x1b[2J\\x00\\u202e"),
        ("\ud800", "\\ud800"),
    ],
    ids=["ordinary", "lines", "terminal", "surrogate"],
)
def test_what_is_not_printable_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_name_cannot_forge_a_line() -> None:
    formatter = LineFormatter("%(levelname)s %(message)s")
    record = logging.LogRecord("x", logging.INFO, "", 1, "resource = %s", ("g\nINFO Principal = User:admin",), None)
    assert formatter.format(record) == "INFO resource = g\\nINFO Principal = User:admin"


def test_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("x")
    except ValueError as error:
        record = logging.LogRecord("x", logging.INFO, "", 1, "failed", (), (ValueError, error, error.__traceback__))
    assert len(LineFormatter("%(message)s").format(record).splitlines()) > 3
