"""What goes wrong between Spark and Kafka, in words for the person at the notebook.

Spark hands on an exception of Python as text, after the traceback: the last lines are all that is read. So causes are
not chained, and an error says in one sentence what happened and what can be done.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

from kclient.errors import (
    AuthorizationError,
    ConfigError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)
from kclient.types import TopicPartition


class SourceError(KafkaError, name="SPARK_SOURCE_FAILED"):
    """The data source could not do what Spark asked for."""


class MissingRequirementError(SourceError, name="MISSING_REQUIREMENT"):
    """Something that has to be installed is not, or is too old."""


class OptionError(SourceError, ConfigError, name="SPARK_OPTION"):
    """An option of the data source does not exist, has a value it cannot have, or contradicts another one."""


class Lost(NamedTuple):
    """Offsets that were to be read and cannot be: from `start` until before `end`; None where that is not known.

    `first` and `last` are where the log begins and ends now; None where there is none.
    """

    partition: TopicPartition
    start: int
    end: int | None
    first: int | None
    last: int | None

    def __str__(self) -> str:
        if self.first is None or self.last is None:
            return f"{self.partition}: {_span(self.start, self.end)} (the partition does not exist any more)"
        has = f"has {_span(self.first, self.last)}" if self.last > self.first else f"is empty at offset {self.last}"
        return f"{self.partition}: {_span(self.start, self.end)} (the log now {has})"


def _span(start: int, end: int | None) -> str:
    if end is None:
        return f"offset {start} and what came after it"
    return f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"


class DataLossError(SourceError, name="DATA_LOSS"):
    """Records that were to be read are not in the log any more, or not in this log.

    Parameters:
        lost: which.

    Attributes:
        lost: the same.
    """

    def __init__(self, lost: Sequence[Lost]) -> None:
        super().__init__(
            f"records are gone that were to be read: {'; '.join(map(str, lost))}. Retention or DeleteRecords removed "
            "them, or the topic was truncated or created anew. To go on with what is there: failOnDataLoss=false"
        )
        self.lost = tuple(lost)


class told_shortly:
    """Turn what Kafka raises within into a `SourceError`, without causes and without the frames it came through.

    Parameters:
        servers: the bootstrap servers, as the user gave them.

    Raises:
        SourceError: in place of a KafkaError.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, SourceError):
            raise error.with_traceback(None) from None
        if isinstance(error, KafkaError):
            raise _translated(error, self._servers) from None


def _translated(error: KafkaError, servers: str) -> SourceError:
    if isinstance(error, ConfigError):
        return OptionError(error.message)
    if isinstance(error, UnknownTopicOrPartitionError):
        what = f"partition {error.topic}-{error.partition}" if error.partition is not None else f"topic {error.topic!r}"
        return SourceError(f"there is no {what} on {servers}")
    if isinstance(error, AuthorizationError):
        return SourceError(f"Kafka on {servers} does not allow this: {error}")
    if isinstance(error, KafkaTimeoutError):
        return SourceError(f"Kafka on {servers} did not answer: {error}")
    return SourceError(f"Kafka on {servers}: {error}")
