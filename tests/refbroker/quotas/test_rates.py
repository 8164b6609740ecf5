"""Rates and token buckets, by the numbers of Kafka's formulas."""

from __future__ import annotations

import pytest

from refbroker.quotas.rates import Average, Rate, TokenBucket, Window

WINDOW = Window(samples=11, sample_ms=1000)
NOW = 1_700_000_000_000


def test_a_new_rate_counts_the_missing_samples_as_empty() -> None:
    rate = Rate(WINDOW)
    rate.record(1000, NOW)
    assert rate.measure(NOW) == 100  # over ten full samples
    assert rate.measure(NOW + 500) == pytest.approx(1000 / 10.5)
    assert rate.throttle_ms(100, NOW) == 0
    assert rate.throttle_ms(50, NOW) == 10_000  # (100 - 50) / 50 of ten seconds


def test_waiting_for_the_throttle_time_brings_the_rate_of_a_full_window_down_to_the_quota() -> None:
    rate = Rate(WINDOW)
    for second in range(11):
        rate.record(100, NOW + 1000 * second)
    now = NOW + 10_500
    wait_ms = rate.throttle_ms(100, now)
    assert wait_ms == 500
    assert rate.throttle_ms(100, now + wait_ms) == 0


def test_samples_leave_the_window_one_by_one() -> None:
    rate = Rate(WINDOW)
    for second in range(11):
        rate.record(100, NOW + 1000 * second)
    full = NOW + 10_999
    assert rate.measure(full) == pytest.approx(1100 / 10.999)
    assert rate.measure(NOW + 11_000) == pytest.approx(1000 / 10)
    assert rate.measure(NOW + 60_000) == 0


def test_a_value_can_be_taken_back() -> None:
    rate = Rate(WINDOW)
    rate.record(1000, NOW)
    rate.record(-1000, NOW)
    assert rate.measure(NOW) == 0


def test_a_bucket_is_full_at_first_and_owes_what_is_taken_beyond() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.take(2 * 11, 2, NOW)  # a window of two per second
    assert bucket.throttle_ms(2, NOW) == 0
    bucket.take(5, 2, NOW)
    assert bucket.throttle_ms(2, NOW) == 2500
    assert bucket.throttle_ms(2, NOW + 2500) == 0


def test_a_bucket_holds_no_more_than_a_window() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.take(1, 2, NOW)
    bucket.take(2 * 11 + 1, 2, NOW + 3_600_000)
    assert bucket.throttle_ms(2, NOW + 3_600_000) == 500


def test_an_average_is_over_the_values_of_the_window() -> None:
    average = Average(WINDOW)
    assert average.measure(NOW) == 0
    average.record(10, NOW)
    average.record(30, NOW + 5000)
    assert average.measure(NOW + 5000) == 20
    assert average.measure(NOW + 11_000) == 30
    assert average.measure(NOW + 60_000) == 0
