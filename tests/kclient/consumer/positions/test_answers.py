"""The match of a response's answers with the partitions that were asked about."""

from __future__ import annotations

import pytest

from kclient.consumer.positions.answers import matched
from kclient.types import TopicPartition

A, B, OTHER = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
QUESTIONS = {A: "a?", B: "b?"}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([(A, 1), (B, 2)], [(A, "a?", 1), (B, "b?", 2)], id="all answered"),
        pytest.param([(B, 2), (A, 1)], [(B, "b?", 2), (A, "a?", 1)], id="in the response's order"),
        pytest.param([(B, 2)], [(B, "b?", 2), (A, "a?", None)], id="one omitted"),
        pytest.param([], [(A, "a?", None), (B, "b?", None)], id="all omitted"),
        pytest.param([(OTHER, 9), (A, 1), (B, 2)], [(A, "a?", 1), (B, "b?", 2)], id="one not asked about"),
        pytest.param([(A, 1), (A, 9), (B, 2)], [(A, "a?", 1), (B, "b?", 2)], id="one answered twice"),
    ],
)
def test_each_partition_asked_about_comes_once(
    answers: list[tuple[TopicPartition, int]], expected: list[tuple[TopicPartition, str, int | None]]
) -> None:
    assert list(matched(QUESTIONS, answers)) == expected


def test_request_entries_stay_for_the_next_response() -> None:
    questions = dict(QUESTIONS)
    list(matched(questions, [(A, 1)]))
    assert questions == QUESTIONS
