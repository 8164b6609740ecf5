"""What an application may give: partitions, and by partition offsets to commit and times to look up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kclient import Consumer, OffsetAndMetadata, Records, TopicPartition
from kclient._offsets import checked_offsets, checked_times

T0 = TopicPartition("orders", 0)
ONE = "a partition is a TopicPartition or a pair (topic, number), not 'orders'"
LIST = "partitions are given as a list of TopicPartition, not "


def test_offsets_are_numbers_or_have_metadata() -> None:
    noted = OffsetAndMetadata(7, "by hand")
    given: dict[tuple[str, int], OffsetAndMetadata | int] = {("t", 0): 3, TopicPartition("t", 1): noted}
    assert checked_offsets(given) == {
        TopicPartition("t", 0): OffsetAndMetadata(3),
        TopicPartition("t", 1): noted,
    }


@pytest.mark.parametrize("given", [Records(), [("t", 0)], "t", 5])
def test_what_is_no_mapping_learns_where_offsets_come_from(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"next_offsets\(\).*, not {type(given).__name__}$"):
        checked_offsets(given)


def test_an_invalid_offset_names_its_partition() -> None:
    with pytest.raises(TypeError, match="not '3' for t-0"):
        checked_offsets({("t", 0): "3"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not -1 for t-0"):
        checked_offsets({("t", 0): OffsetAndMetadata(-1)})


def test_times_are_taken_by_partitions_and_by_pairs_alike() -> None:
    # Two variables with types of their own: the type checker reads this test as well.
    by_partition: dict[TopicPartition, int] = {TopicPartition("t", 0): 3}
    by_pair: dict[tuple[str, int], int] = {("t", 0): 3}
    assert checked_times(by_partition) == checked_times(by_pair) == by_partition


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ([("t", 0)], TypeError, r"milliseconds since the epoch: \{TopicPartition: int\}, not list$"),
        ({("t", 0): 1.5}, TypeError, "not 1.5 for t-0"),
        ({("t", 0): datetime(2026, 1, 1, tzinfo=UTC)}, TypeError, "milliseconds since the epoch, not datetime"),
        ({("t", 0): -2}, ValueError, "not -2 for t-0"),
    ],
)
def test_what_is_no_time_is_refused(given: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        checked_times(given)


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    with Consumer(bootstrap_servers="localhost:1", group_id="g") as consumer:
        yield consumer


@pytest.mark.parametrize(
    ("call", "says"),
    [
        pytest.param(lambda consumer: consumer.seek("orders", 0), ONE, id="seek"),
        pytest.param(lambda consumer: consumer.seek_to_beginning("orders"), ONE, id="seek_to_beginning"),
        pytest.param(lambda consumer: consumer.position("orders"), ONE, id="position"),
        pytest.param(lambda consumer: consumer.current_lag("orders"), ONE, id="current_lag"),
        pytest.param(lambda consumer: consumer.pause("orders"), ONE, id="pause"),
        pytest.param(lambda consumer: consumer.assign("orders"), f"{LIST}'orders'", id="assign a topic"),
        pytest.param(lambda consumer: consumer.assign(T0), f"{LIST}{T0!r}", id="assign one partition"),
        pytest.param(lambda consumer: consumer.committed(["orders"]), ONE, id="committed"),
        pytest.param(lambda consumer: consumer.end_offsets(T0), f"{LIST}{T0!r}", id="end_offsets"),
        pytest.param(lambda consumer: consumer.commit({"orders": 1}), ONE, id="commit"),
    ],
)
def test_what_is_no_partition_is_an_error_that_says_so(
    consumer: Consumer, call: Callable[[Any], object], says: str
) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(says)}$"):
        call(consumer)
