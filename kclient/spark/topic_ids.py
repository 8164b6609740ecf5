"""Which topic it was: the ids that Kafka gives to topics, kept beside the offsets of a stream.

A topic that is deleted and created anew has the same name, and offsets that may go beyond those of the one before; only
its id is another one (KIP-516). In the offsets that Spark keeps, it is a key beside the topic's own:

    {"orders": {"0": 23, "1": 5}, "orders/jOCHGQXNT9aP5iBsH7dZTA": {}}

No topic has a slash in its name, and what has no partitions says nothing to those who know nothing of ids: offsets
remain what Spark's own connector reads, and the option startingOffsets. Where there is no such key, as in the offsets
of that connector, nothing is known of the topic.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from kclient.errors import AdminError, UnknownTopicOrPartitionError
from kclient.spark.admins import open_admin
from kclient.spark.options import ReadOptions

Ids = dict[str, str]
"""By topic, its id as Kafka's tools write it; an empty one where the brokers give none, as those before 2.8."""

_MARK = "/"


def with_ids(written: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """Offsets with the ids of their topics, as far as these are known."""
    return {**written, **{f"{topic}{_MARK}{ids[topic]}": {} for topic in written if ids.get(topic)}}


def ids_in(written: Mapping[str, Any]) -> Ids:
    """The ids that are kept with offsets."""
    return {topic: found for topic, mark, found in (key.partition(_MARK) for key in written) if mark}


def created_anew(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Topics that are not those they were."""
    return {topic for topic, one in before.items() if one and now.get(topic) and now[topic] != one}


def look_up(options: ReadOptions, topics: Iterable[str]) -> Ids:
    """The ids of topics; without those that do not exist.

    Raises:
        KafkaError: the brokers cannot tell.
    """
    with open_admin(options.client) as admin:
        try:
            found = admin.describe_topics(topics)
        except AdminError as error:
            for one in error.errors.values():
                if not isinstance(one, UnknownTopicOrPartitionError):
                    raise one from None
            found = error.results
    return {name: _text(one.topic_id) if one.topic_id.int else "" for name, one in found.items()}


def _text(topic_id: UUID) -> str:
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()
