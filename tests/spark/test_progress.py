"""How far a query is behind, out of its progress."""

from __future__ import annotations

import json
from typing import Any

from kclient.spark.progress import lag
from kclient.types import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def progress(*sources: tuple[Any, Any]) -> Any:
    """Of sources with where they have read to and where they could have, as PySpark has them."""
    return {"sources": [{"endOffset": json.dumps(end), "latestOffset": json.dumps(last)} for end, last in sources]}


def test_lag_is_what_is_there_and_not_read() -> None:
    assert lag(progress(({"t": {"0": 5, "1": 7}}, {"t": {"0": 12, "1": 7}}))) == {A: 7, B: 0}


def test_a_partition_that_grew_while_the_end_was_old_has_no_negative_lag() -> None:
    assert lag(progress(({"t": {"0": 5}}, {"t": {"0": 4}}))) == {A: 0}


def test_what_is_new_or_gone_has_none() -> None:
    assert lag(progress(({"t": {"0": 5}}, {"t": {"1": 4}}))) == {}


def test_the_slower_of_two_sources_counts() -> None:
    two = progress(({"t": {"0": 5}}, {"t": {"0": 9}}), ({"t": {"0": 1}}, {"t": {"0": 9}}))
    assert lag(two) == {A: 8}


def test_before_the_first_micro_batch_nothing_is_known() -> None:
    assert lag({"sources": [{"endOffset": "None", "latestOffset": "None"}]}) == {}
