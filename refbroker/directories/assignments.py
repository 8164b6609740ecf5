"""Tells the controller of another node in which data directory each partition is: AssignReplicasToDirs (KIP-858).

What to send follows from the difference between the metadata and the logs, so nothing is queued: one request is in
flight at a time, and what it leaves open is sent again. Failed and cordoned directories are in the heartbeats
(`refbroker.lifecycle`). Elsewhere: the records on a node that is its own controller (`records`). Source: Kafka's
AssignmentsManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from kclient.errors import KafkaError, error_from_code, raise_for_code
from kclient.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from refbroker.directories.events import FindHome
from refbroker.log import LogDirectory, PartitionLog
from refbroker.metadata.directories import directory_on
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.versions import DIRECTORIES
from refbroker.peers.controller_client import ControllerClient, when_done

logger = logging.getLogger(__name__)

MOST_ASSIGNMENTS = 2250
"""Partitions in one request, as in Kafka."""
BACKOFF, MAX_BACKOFF = 0.1, 10.0
"""Seconds before a request is repeated, at first and at most."""

Assignment = tuple[UUID, int, UUID]
"""Topic id, partition, and directory id."""


class DirectoryAssignments:
    """The assignments of this broker's partitions to its directories; the `DirectoryReports` of a cluster's member.

    Parameters:
        image: the state of the cluster.
        node_id: the broker's id.
        controller: sends requests to the active controller.
        on_change: called when directories have failed or are cordoned, so that a heartbeat reports it.
    """

    def __init__(
        self, image: ClusterImage, node_id: int, controller: ControllerClient, on_change: Callable[[], None]
    ) -> None:
        self._image = image
        self._node_id = node_id
        self._controller = controller
        self._on_change = on_change
        self._find: FindHome | None = None
        self._in_flight = False
        self._is_due = False
        self._failures = 0
        self._retry: asyncio.TimerHandle | None = None
        # Accepted by the controller, and not in the image yet.
        self._accepted: set[Assignment] = set()

    def report(self, find: FindHome) -> None:
        """See DirectoryReports."""
        self._find = find
        self._on_change()
        self._send()

    def assign(self, log: PartitionLog, directory: LogDirectory) -> None:
        """See DirectoryReports; the log is in the directory already, where the next request finds it."""
        self._send()

    def close(self) -> None:
        """Send nothing more."""
        self._find = None
        if self._retry is not None:
            self._retry.cancel()

    def _send(self) -> None:
        if self._in_flight:
            self._is_due = True
            return
        if self._retry is not None:
            return
        assignments = list(self._missing())[:MOST_ASSIGNMENTS]
        registered = self._image.brokers.get(self._node_id)
        if not assignments or registered is None:
            return
        self._in_flight, self._is_due = True, False
        request = _request(self._node_id, registered.broker_epoch, assignments)
        when_done(self._controller.ask(request), self._receive)

    def _missing(self) -> Iterator[Assignment]:
        """Yield the assignments that the metadata lacks."""
        find, node = self._find, self._node_id
        if find is None or self._image.metadata_version < DIRECTORIES:
            return
        open_ones: set[Assignment] = set()
        for topic in self._image.topics.values():
            for number, state in topic.partitions.items():
                home = find(topic.name, number) if node in state.replicas else None
                if home is None or home == directory_on(state, node):
                    continue
                assignment = topic.topic_id, number, home
                open_ones.add(assignment)
                if assignment not in self._accepted:
                    yield assignment
        self._accepted &= open_ones

    def _receive(self, answer: asyncio.Future[Any]) -> None:
        self._in_flight = False
        try:
            response = answer.result()
            raise_for_code(response.error_code)
        except KafkaError as error:
            self._fail(error)
            return
        failure: KafkaError | None = None
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    if partition.error_code:
                        failure = error_from_code(partition.error_code, partition=partition.partition_index)
                    else:
                        self._accepted.add((topic.topic_id, partition.partition_index, directory.id))
        if failure is not None:
            self._fail(failure)
            return
        self._failures = 0
        if self._is_due:
            self._send()

    def _fail(self, error: KafkaError) -> None:
        delay = min(BACKOFF * 2.0**self._failures, MAX_BACKOFF)
        self._failures += 1
        logger.warning("the controller did not take the directories of partitions: %s; trying again", error)
        if self._find is not None:
            self._retry = asyncio.get_running_loop().call_later(delay, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._send()


def _request(node: int, epoch: int, assignments: list[Assignment]) -> AssignReplicasToDirsRequest:
    kind = AssignReplicasToDirsRequest
    by_directory: dict[UUID, dict[UUID, list[int]]] = {}
    for topic_id, number, directory in assignments:
        by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(number)
    return kind(
        broker_id=node,
        broker_epoch=epoch,
        directories=[
            kind.DirectoryData(
                id=directory,
                topics=[
                    kind.TopicData(
                        topic_id=topic_id, partitions=[kind.PartitionData(partition_index=number) for number in numbers]
                    )
                    for topic_id, numbers in topics.items()
                ],
            )
            for directory, topics in by_directory.items()
        ],
    )
