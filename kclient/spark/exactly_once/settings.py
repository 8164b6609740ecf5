"""The settings of an exactly-once write, its names in Kafka, and what tasks send to the driver.

The names of a query have one prefix, so that one prefixed ACL covers them:

    PREFIX-QUERY                                    the group whose committed offset is the decision
    PREFIX-QUERY-driver                             the transactional id by which the driver decides
    PREFIX-QUERY-PARTITION-PARITY-LANE              those of the tasks

PARITY is that of the batch. LANE is the number of the attempt, or the next one without an open transaction
(`recovery`); the lane of the last decided batch is not used again if batches without rows in between give it the same
parity. So a query has about twice as many ids as tasks, and a restart adds none; unused ids expire after
`transactional.id.expiration.ms`.
"""

from __future__ import annotations

import re

import msgspec

from kclient.config import ProducerConfig
from kclient.types import PreparedTransaction

PREFIX = "kclient-spark"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a query's writes.

    Attributes:
        client: options of the clients, by Kafka's dotted names.
        query: the id of the query, which is the same after a restart from its checkpoint.
        decision_topic: an existing topic for the committed offsets of the query's group; nothing is written to it.
        repeatable: what a repeated batch has in common: True for the same rows in the same tasks, None for the same
            number of rows, False for nothing.
        is_stream: whether the query is a stream; False for a batch write.
        prefix: the prefix of the group and of all transactional ids.
    """

    client: dict[str, str]
    query: str
    decision_topic: str
    repeatable: bool | None = None
    is_stream: bool = True
    prefix: str = PREFIX

    @property
    def group(self) -> str:
        """The group with the decision."""
        return f"{self.prefix}-{self.query}"

    @property
    def block_ms(self) -> int:
        """How long a task or the driver waits for brokers that do not respond, in ms."""
        return ProducerConfig.from_properties(self.client).max_block_ms

    @property
    def driver_id(self) -> str:
        """The transactional id of the driver."""
        return f"{self.group}-driver"

    def task_id(self, batch: int, partition: int, lane: int) -> str:
        """Return the transactional id of a task."""
        return f"{self.group}-{partition}-{batch % 2}-{lane}"

    def is_task_of(self, transactional_id: str, batch: int) -> bool:
        """Return whether an id belongs to a task of this query, in a batch of this parity."""
        start = f"{self.group}-"
        return transactional_id.startswith(start) and bool(
            re.fullmatch(rf"\d+-{batch % 2}-\d+", transactional_id[len(start) :])
        )


class TaskAttempt(msgspec.Struct, frozen=True):
    """A task of a batch.

    Attributes:
        batch: the batch's number.
        run: the run of the query, which changes with each start.
        partition: the task's number in the batch.
        attempt: the number of earlier attempts.
    """

    batch: int
    run: str
    partition: int
    attempt: int = 0


class TaskResult(msgspec.Struct, frozen=True):
    """The result of a task, for the driver.

    Attributes:
        task: the task.
        query: the query's id.
        lane: the lane of its transactional id.
        prepared: the transaction; None if it wrote nothing.
        replaces: the lost transaction of a decided batch that this one replaces.
        rows: the number of rows, written or not.
        another_is_open: whether another attempt had an open transaction.
    """

    task: TaskAttempt
    query: str
    lane: int = 0
    prepared: PreparedTransaction | None = None
    replaces: PreparedTransaction | None = None
    rows: int = 0
    another_is_open: bool = False
