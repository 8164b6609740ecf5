"""What an exactly-once write is told, what it calls things in Kafka, and what passes between tasks and driver.

A query has, all beginning with the same prefix, so that one prefixed ACL covers them:

    PREFIX-QUERY                                    the group whose committed offset is the decision
    PREFIX-QUERY-driver                             the transactional id by which the driver decides
    PREFIX-QUERY-PARTITION-PARITY-LANE              those of the tasks

PARITY is that of the batch. LANE is the number of the attempt, or the next on which nothing is open (`recovery`); but
not that of the last decided batch, where batches without rows lie between and the parity is the same. So a query has
about twice as many ids as tasks, and a restart brings no new ones; the brokers forget those that are not used after
`transactional.id.expiration.ms`.
"""

from __future__ import annotations

import re

import msgspec

from kclient.config import ProducerConfig
from kclient.types import PreparedTransaction

PREFIX = "kclient-spark"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a query writes.

    Attributes:
        client: options of the clients, by Kafka's dotted names.
        query: the query's id: the same after a restart from the same checkpoint, and no other query's.
        decision_topic: an existing topic; the query's group has its committed offsets there. Nothing is written to it.
        repeatable: what is known of a batch that is read again: True if it gives the same rows to the same tasks, False
            if not even as many rows; None if as many.
        prefix: what the group and all transactional ids begin with.
    """

    client: dict[str, str]
    query: str
    decision_topic: str
    repeatable: bool | None = None
    is_stream: bool = True
    prefix: str = PREFIX

    @property
    def group(self) -> str:
        """The group that has the decision."""
        return f"{self.prefix}-{self.query}"

    @property
    def block_ms(self) -> int:
        """How long a task or the driver waits for brokers that do not answer."""
        return ProducerConfig.from_properties(self.client).max_block_ms

    @property
    def driver_id(self) -> str:
        """The driver's transactional id."""
        return f"{self.group}-driver"

    def task_id(self, batch: int, partition: int, lane: int) -> str:
        """A task's transactional id."""
        return f"{self.group}-{partition}-{batch % 2}-{lane}"

    def is_task_of(self, transactional_id: str, batch: int) -> bool:
        """Whether an id is one of this query's tasks, in a batch of this parity."""
        start = f"{self.group}-"
        return transactional_id.startswith(start) and bool(
            re.fullmatch(rf"\d+-{batch % 2}-\d+", transactional_id[len(start) :])
        )


class Place(msgspec.Struct, frozen=True):
    """Which task of which batch runs.

    Attributes:
        batch: the batch's number.
        run: the run of the query, another one after each start.
        partition: the task's number in the batch.
        attempt: how often Spark has tried it before.
    """

    batch: int
    run: str
    partition: int
    attempt: int = 0


class Written(msgspec.Struct, frozen=True):
    """What a task tells the driver.

    Attributes:
        place: which task it was.
        query: the query's id.
        lane: of its transactional id.
        prepared: its transaction; None if it wrote nothing.
        replaces: the transaction of a decided batch that was aborted, and whose rows these are.
        rows: how many it had, written or not.
        is_alone: whether no other attempt was seen to have a transaction open.
    """

    place: Place
    query: str
    lane: int = 0
    prepared: PreparedTransaction | None = None
    replaces: PreparedTransaction | None = None
    rows: int = 0
    is_alone: bool = True
