"""What of the client's warnings a person gets to see."""

from __future__ import annotations

import logging

from kclient.cli.output import REPEATED_SECONDS, Repetitions


def record(text: str, created: float) -> logging.LogRecord:
    made = logging.LogRecord("kclient.net", logging.WARNING, __file__, 1, "%s", (text,), None)
    made.created = created
    return made


def test_a_warning_that_holds_the_reason_of_another_one_is_kept_back() -> None:
    told = Repetitions()
    assert told.filter(record("admin 'kclient': could not connect to a:1", 100.0))
    assert told.filter(record("admin 'kclient': could not connect to b:1", 100.0))
    assert not told.filter(record("admin 'kclient': metadata could not be updated: could not connect to a:1", 130.0))


def test_a_later_outage_is_reported_again() -> None:
    told = Repetitions()
    assert told.filter(record("could not connect to a:1", 100.0))
    assert told.filter(record("could not connect to a:1", 100.0 + REPEATED_SECONDS))
