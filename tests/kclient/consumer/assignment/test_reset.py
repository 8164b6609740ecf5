"""The option auto_offset_reset in all its spellings."""

from __future__ import annotations

import pytest

from kclient.consumer.assignment.reset import EARLIEST, LATEST, ResetPolicy, parse_policy
from kclient.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("none", ResetPolicy("none")),
        ("by_duration:PT1H", ResetPolicy("by_duration", 3_600_000)),
        ("by_duration:P1DT2H3M4.5S", ResetPolicy("by_duration", 93_784_500)),
        ("by_duration:P7D", ResetPolicy("by_duration", 604_800_000)),
        ("by_duration:pt0s", ResetPolicy("by_duration", 0)),
    ],
)
def test_policies_are_read(text: str, policy: ResetPolicy) -> None:
    assert parse_policy(text) == policy


@pytest.mark.parametrize(
    "text",
    ["", "Earliest", "smallest", "by_duration", "by_duration:", "by_duration:P", "by_duration:1h", "by_duration:-PT1H"],
)
def test_anything_else_is_an_error_that_shows_what_is_right(text: str) -> None:
    with pytest.raises(ConfigError, match="PT1H"):
        parse_policy(text)


def test_timestamps_that_are_asked_for() -> None:
    assert EARLIEST.timestamp(5_000) == -2
    assert LATEST.timestamp(5_000) == -1
    assert ResetPolicy("by_duration", 1_000).timestamp(5_000) == 4_000
    assert ResetPolicy("by_duration", 9_000).timestamp(5_000) == 0
