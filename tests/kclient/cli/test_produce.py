"""How `kclient produce` ends: what it says of the records that were produced, and of those that were not."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.cli.failures import CommandError
from kclient.cli.lines import LineError
from kclient.cli.produce import ERRORS_SHOWN, Produced
from kclient.errors import RecordTooLargeError


class Future:
    """The future of a record, as far as it is looked at."""

    def __init__(self, error: BaseException | None = None, *, done: bool = True) -> None:
        self.is_done = done
        self.error = error
        self.looks = 0

    def done(self) -> bool:
        self.looks += 1
        return self.is_done

    def exception(self) -> BaseException | None:
        assert self.is_done
        return self.error


def add(made: Produced, line: int, future: Future) -> None:
    real: Any = future
    made.add(line, real)


def produced(sent: int, *failed: int, stopped_by: LineError | None = None) -> Produced:
    """An account of so many records, each in the line of its number, of which some failed."""
    made = Produced("orders")
    made.stopped_by = stopped_by
    for line in range(1, sent + 1):
        add(made, line, Future(RecordTooLargeError("too much") if line in failed else None))
    return made


@pytest.mark.parametrize(("sent", "text"), [(0, "0 records"), (1, "1 record"), (1234, "1,234 records")])
def test_a_good_end_is_a_count_on_stdout(capsys: pytest.CaptureFixture[str], sent: int, text: str) -> None:
    produced(sent).report()
    assert capsys.readouterr() == (f"{text} produced to orders\n", "")


def test_what_was_not_delivered_is_named_by_line() -> None:
    with pytest.raises(CommandError) as raised:
        produced(10, 4, 7).report()
    first, second, count = str(raised.value).splitlines()
    assert (first[:7], second[:7], count) == ("line 4:", "line 7:", "8 records produced to orders")
    assert "too much" in first


def test_many_errors_are_counted() -> None:
    failed = range(1, ERRORS_SHOWN + 4)
    with pytest.raises(CommandError) as raised:
        produced(100, *failed).report()
    *shown, more, count = str(raised.value).splitlines()
    assert (len(shown), more) == (ERRORS_SHOWN, "... and 3 more that were not produced")
    assert count == "92 records produced to orders"


def test_a_record_that_waits_long_is_not_forgotten_and_not_checked_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("kclient.cli.produce.CHECK_EVERY", 10)
    made = Produced("orders")
    slow = [Future(done=False) for _ in range(100)]
    for line, future in enumerate(slow, 1):
        add(made, line, future)
    assert max(future.looks for future in slow) <= 5
    quick = [Future() for _ in range(1000)]
    for line, future in enumerate(quick, 101):
        add(made, line, future)
    assert sum(future.looks for future in quick) >= 800
    for future in slow:
        future.is_done = True
    slow[41].error = RecordTooLargeError("too much")
    with pytest.raises(CommandError, match=r"^line 42: .*\n1,099 records produced to orders$"):
        made.report()
    assert capsys.readouterr().out == ""


def test_a_wrong_line_says_what_was_produced_before_it() -> None:
    with pytest.raises(CommandError) as raised:
        produced(2, stopped_by=LineError(3, "no JSON")).report()
    assert str(raised.value).splitlines() == [
        "line 3: no JSON; this line and the following ones were not sent",
        "2 records produced to orders",
    ]
