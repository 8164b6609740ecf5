"""Matches the results of a response with the partitions of its request.

Elsewhere: the meaning of a result (`list_offsets`, `validation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from kclient.types import TopicPartition

Question = TypeVar("Question")
Answer = TypeVar("Answer")


def matched(
    questions: Mapping[TopicPartition, Question], answers: Iterable[tuple[TopicPartition, Answer]]
) -> Iterator[tuple[TopicPartition, Question, Answer | None]]:
    """Yield each requested partition once, with its question and its result.

    First those in the response, in its order; then those that are missing, with None. Results of other partitions, and
    repeated ones, are ignored.

    Parameters:
        questions: the entries of the request.
        answers: the entries of the response.
    """
    unanswered = dict(questions)
    for tp, answer in answers:
        if tp in unanswered:
            yield tp, unanswered.pop(tp), answer
    for tp, question in unanswered.items():
        yield tp, question, None
