"""What transactional calls check before they ask anything of a broker."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.producer.transactions.calls import check_group
from kclient.types import ConsumerGroupMetadata


@pytest.mark.parametrize(
    ("group", "error", "text"),
    [
        ("g", TypeError, "not 'g'"),
        (ConsumerGroupMetadata(""), ValueError, "names no group"),
        (ConsumerGroupMetadata("g", 1), ValueError, "generation 1 and no member_id"),
    ],
)
def test_what_says_nothing_of_a_consumer_is_refused(group: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        check_group(group)


@pytest.mark.parametrize(
    "group",
    [ConsumerGroupMetadata("g"), ConsumerGroupMetadata("g", 0), ConsumerGroupMetadata("g", 1, "member")],
    ids=["without a member", "without a generation", "of a member"],
)
def test_a_consumer_with_or_without_a_member_is_taken(group: ConsumerGroupMetadata) -> None:
    check_group(group)
