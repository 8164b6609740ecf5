"""Points in time become milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kclient._times import milliseconds

MOMENT = datetime(2020, 9, 13, 12, 26, 40, 9_000, UTC)


@pytest.mark.parametrize("number", [0, 1, 9, 57, 999])
def test_every_millisecond_is_exact(number: int) -> None:
    assert milliseconds(MOMENT.replace(microsecond=number * 1000)) == 1_600_000_000_000 + number


def test_what_is_less_than_a_millisecond_is_cut_off() -> None:
    assert milliseconds(MOMENT.replace(microsecond=9_999)) == 1_600_000_000_009


def test_a_zone_moves_the_clock_and_not_the_moment() -> None:
    assert milliseconds(MOMENT.astimezone(timezone(timedelta(hours=5, minutes=45)))) == 1_600_000_000_009


def test_a_time_without_a_zone_is_local() -> None:
    assert milliseconds(MOMENT.astimezone().replace(tzinfo=None)) == 1_600_000_000_009
