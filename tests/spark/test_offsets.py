"""Offsets as Spark keeps them, and what is missing of a range; how they are looked up is in test_tasks.py."""

from __future__ import annotations

import logging

import pytest

from kclient.spark.errors import DataLossError, Lost
from kclient.spark.offsets import Range, available, from_json, to_json
from kclient.types import TopicPartition

A, B = TopicPartition("orders", 0), TopicPartition("orders", 10)


def test_offsets_go_into_a_checkpoint_in_order_and_come_back() -> None:
    offsets = {B: 7, TopicPartition("more", 1): 2, A: 2**40}
    written = to_json(offsets)
    assert list(written) == ["more", "orders"]
    assert written == {"more": {"1": 2}, "orders": {"0": 2**40, "10": 7}}
    assert from_json(written) == offsets


def test_what_the_log_has_is_left_as_it_is() -> None:
    asked = [Range(A, 5, 10), Range(B, 0, 3), Range(A, 10, 10)]
    assert available(asked, {A: 5, B: 0}, {A: 10, B: 7}, fail_on_data_loss=True) == asked


@pytest.mark.parametrize(
    ("asked", "lost", "left", "ends"),
    [
        ((0, 20), (0, 10), (10, 20), ""),
        ((0, 5), (0, 5), (10, 10), ""),
        ((12, 40), (30, 40), (12, 30), ", and ends at 30, before 40"),
        ((35, 40), (35, 40), (30, 30), ", and ends at 30, before 40"),
        ((35, 35), (30, 35), (30, 30), ", and ends at 30, before 35"),
    ],
    ids=["begins later", "all before the log", "ends sooner", "all after the log", "nothing to read, after the log"],
)
def test_what_the_log_lacks_is_lost(
    asked: tuple[int, int], lost: tuple[int, int], left: tuple[int, int], ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    ranges = [Range(A, *asked)]
    with pytest.raises(DataLossError) as caught:
        available(ranges, {A: 10}, {A: 30}, fail_on_data_loss=True)
    assert caught.value.lost == (Lost(A, *lost, 10, 30),)
    said = str(caught.value)
    assert f"orders-0: offsets {lost[0]} to {lost[1] - 1} (the log now has offsets 10 to 29{ends})" in said
    # Who asks for what has never been there has lost nothing, and nobody here can tell.
    assert ("or an offset beyond the end was given by mistake" in said) == bool(ends)
    with caplog.at_level(logging.WARNING, logger="kclient.spark"):
        assert available(ranges, {A: 10}, {A: 30}, fail_on_data_loss=False) == [Range(A, *left)]
    assert "failOnDataLoss" in caplog.text


def test_both_ends_of_a_range_may_be_lost() -> None:
    with pytest.raises(DataLossError) as caught:
        available([Range(A, 0, 40), Range(B, 3, 4)], {A: 10, B: 5}, {A: 30, B: 5}, fail_on_data_loss=True)
    assert [str(one) for one in caught.value.lost] == [
        "orders-0: offsets 0 to 9 (the log now has offsets 10 to 29)",
        "orders-0: offsets 30 to 39 (the log now has offsets 10 to 29, and ends at 30, before 40)",
        "orders-10: offset 3 (the log now is empty at offset 5)",
    ]
