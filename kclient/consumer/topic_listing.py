"""Lists topics and their partitions, fresh from a broker; beside what the consumer reads, and without effect on it."""

from __future__ import annotations

import time

from kclient.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartitionError, raise_for_code
from kclient.net.backoff import Backoff
from kclient.net.cluster import partition_info
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation, Pause, Result
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.types import PartitionInfo

_MARGIN = 1.0
"""Seconds that the network thread may be late to end what has a deadline."""


def list_topics(
    engine: Engine, names: list[str] | None, timeout: float, backoff: Backoff, *, create: bool
) -> Operation[dict[str, list[PartitionInfo]]]:
    """Ask any broker, and again while that fails for what can pass: a connection that is lost, a leader not known yet.

    Parameters:
        names: the topics; None for all that may be seen, without internal ones.
        timeout: seconds.
        backoff: how long to wait before it is asked again.
        create: whether the broker may create a topic that is named.

    Raises:
        UnknownTopicOrPartitionError: a topic that is named does not exist.
        KafkaTimeoutError: no broker told.
    """
    deadline = time.monotonic() + timeout
    failures = 0
    last: KafkaError | None = None
    while True:
        try:
            return (yield from _ask(engine, names, max(0.0, deadline - time.monotonic()), create))
        except KafkaError as error:
            is_late = isinstance(error, KafkaTimeoutError)
            if not error.retriable or isinstance(error, UnknownTopicOrPartitionError) or (is_late and last is None):
                raise
            failures += 1
            again = time.monotonic() + backoff.seconds(failures)
            last = last if is_late else error.without_frames()
            if is_late or again >= deadline:
                raise KafkaTimeoutError(
                    f"no broker told of its topics within {timeout:g} s; the last error: {last}", api="Metadata"
                ) from error
        # News of something else ends a pause too.
        while (left := again - time.monotonic()) > 0:
            yield Pause(left)


def _ask(
    engine: Engine, names: list[str] | None, timeout: float, create: bool
) -> Operation[dict[str, list[PartitionInfo]]]:
    topics = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]

    def build(version: int) -> MetadataRequest:
        message = MetadataRequest(topics=topics)
        if version >= 4:
            message.allow_auto_topic_creation = create and names is not None
        return message

    future = engine.call(ANY_NODE, MetadataRequest, build, timeout=timeout)
    response = yield Result(future, time.monotonic() + timeout + _MARGIN)
    found: dict[str, list[PartitionInfo]] = {}
    for topic in response.topics:
        if topic.error_code and names is not None:
            raise_for_code(topic.error_code, topic=topic.name, api="Metadata")
        if topic.error_code or topic.name is None or (names is None and topic.is_internal):
            continue
        found[topic.name] = sorted(
            (partition_info(topic.name, partition) for partition in topic.partitions), key=lambda info: info.partition
        )
    return found
