"""Faults for fetch sessions, whose requests contain only changes; the session has the other partitions (KIP-227).

A fault for a topic must apply to those too, and a response that omits an unchanged partition must contain it with an
error.
"""

from __future__ import annotations

from collections.abc import Iterator

from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from refbroker.fetch.sessions import FetchedPartition, FetchSessions
from refbroker.handlers.naming import UNKNOWN, Covers, Resolve


def remembered(sessions: FetchSessions, request: FetchRequest, resolve: Resolve) -> Iterator[tuple[str, int]]:
    """Yield the topics and partitions of a request that only its session contains."""
    session = sessions.find(request.session_id)
    if session is None or request.session_epoch <= 0:
        return
    forgotten = {
        (topic.topic_id if session.uses_topic_ids else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    }
    for key, wanted in session.partitions.items():
        if key not in forgotten:
            yield _name(wanted, resolve), wanted.partition


def recall(sessions: FetchSessions, answer: FetchResponse, covers: Covers, resolve: Resolve) -> None:
    """Add partitions that the session omitted to a response, because they get an error.

    The next response contains them whatever their offsets are, as after any error.
    """
    session = sessions.find(answer.session_id)
    if session is None:
        return
    for wanted in session.partitions.values():
        if covers(_name(wanted, resolve), wanted.partition):
            wanted.sent_high_watermark = -1
            _add(answer, wanted)


def _add(answer: FetchResponse, wanted: FetchedPartition) -> None:
    for topic in answer.responses:
        if wanted.topic in (topic.topic, topic.topic_id):
            break
    else:
        topic = FetchResponse.FetchableTopicResponse()
        if isinstance(wanted.topic, str):
            topic.topic = wanted.topic
        else:
            topic.topic_id = wanted.topic
        answer.responses.append(topic)
    if not any(one.partition_index == wanted.partition for one in topic.partitions):
        topic.partitions.append(FetchResponse.PartitionData(partition_index=wanted.partition))


def _name(wanted: FetchedPartition, resolve: Resolve) -> str:
    return wanted.topic if isinstance(wanted.topic, str) else resolve(wanted.topic) or UNKNOWN
