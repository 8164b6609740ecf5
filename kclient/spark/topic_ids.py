"""The ids of topics, stored beside the offsets of a stream.

If a topic is deleted and created again, it has the same name and may have larger offsets; only its id differs
(KIP-516). In the offsets that Spark stores, the id is part of a second key:

    {"orders": {"0": 23, "1": 5}, "orders/jOCHGQXNT9aP5iBsH7dZTA": {}}

A topic name has no slash, and a topic without partitions has no effect elsewhere: Spark's own connector and the option
startingOffsets can read these offsets. Offsets without such a key, as those of that connector, have no known id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kclient._text import id_text
from kclient.errors import AdminError, UnknownTopicOrPartitionError
from kclient.spark.admins import open_admin
from kclient.spark.options import ReadOptions

Ids = dict[str, str]
"""The id of each topic, as Kafka's tools write it; empty for brokers without ids, before 2.8."""

_MARK = "/"


def with_ids(written: Mapping[str, Any], ids: Mapping[str, str]) -> dict[str, Any]:
    """Return offsets with the known ids of their topics."""
    return {**written, **{f"{topic}{_MARK}{ids[topic]}": {} for topic in written if ids.get(topic)}}


def ids_in(written: Mapping[str, Any]) -> Ids:
    """Return the ids stored with offsets."""
    return {topic: found for topic, mark, found in (key.partition(_MARK) for key in written) if mark}


def recreated(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the topics whose id has changed."""
    return {topic for topic, one in before.items() if one and now.get(topic) and now[topic] != one}


def look_up(options: ReadOptions, topics: Iterable[str]) -> Ids:
    """Return the ids of topics, without those that do not exist.

    Raises:
        KafkaError: the request failed.
    """
    with open_admin(options.client) as admin:
        try:
            found = admin.describe_topics(topics)
        except AdminError as error:
            for one in error.errors.values():
                if not isinstance(one, UnknownTopicOrPartitionError):
                    raise one from None
            found = error.results
    return {name: id_text(one.topic_id) if one.topic_id.int else "" for name, one in found.items()}
