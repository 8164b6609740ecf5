"""Lists topics and their partitions as a broker reports them now, independent of the subscription."""

from __future__ import annotations

from kclient.errors import raise_for_code
from kclient.net.cluster import partition_info
from kclient.net.deadline import Deadline
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation
from kclient.net.requesting import Requester
from kclient.types import PartitionInfo


def list_topics(
    requester: Requester, names: list[str] | None, deadline: Deadline, *, create: bool
) -> Operation[dict[str, list[PartitionInfo]]]:
    """Ask any broker; retry transient errors: a lost connection, an unknown leader.

    Parameters:
        names: the topics; None for all visible ones, without internal ones.
        create: whether the broker may create a named topic.

    Raises:
        UnknownTopicOrPartitionError: a named topic does not exist.
        KafkaTimeoutError: no broker responded in time.
    """
    return (yield from requester.retry(lambda: _ask(requester, names, deadline, create), deadline))


def _ask(
    requester: Requester, names: list[str] | None, deadline: Deadline, create: bool
) -> Operation[dict[str, list[PartitionInfo]]]:
    response = yield from requester.metadata(ANY_NODE, names, deadline, create=create)
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
