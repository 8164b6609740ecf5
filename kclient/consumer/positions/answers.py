"""The answers of one response, matched with the partitions that its request asked about.

Elsewhere: what an answer means (`list_offsets`, `validation`).
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
    """Yield each partition that was asked about once, with its question and its answer.

    First come those that were answered, in the order of the response; then those that the response leaves out, with
    None. Answers about other partitions, and further answers about the same one, are ignored.

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
