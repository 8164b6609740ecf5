"""Errors of the data source, for the person at the notebook.

Spark shows an exception of Python as text, after the traceback, and users read the last lines. So causes are not
chained, and an error says in one sentence what happened and what to do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

from kclient.config import AdminConfig, ConsumerConfig, ProducerConfig, dotted_name
from kclient.errors import (
    AuthorizationError,
    ConfigError,
    KafkaError,
    KafkaTimeoutError,
    RecordNotAcceptedError,
    UnknownTopicOrPartitionError,
)
from kclient.types import TopicPartition


class SourceError(KafkaError, name="SPARK_SOURCE_FAILED"):
    """The data source could not carry out a request of Spark."""


class MissingRequirementError(SourceError, name="MISSING_REQUIREMENT"):
    """A required package is missing or too old."""


class OptionError(SourceError, ConfigError, name="SPARK_OPTION"):
    """An option of the data source does not exist, has an invalid value, or contradicts another one."""


class Lost(NamedTuple):
    """Offsets that cannot be read, from `start` until before `end`; None if unknown.

    `first` and `last` are the current start and end of the log; None if there is no log, or if the topic was created
    again (`is_recreated`). A range that begins at `last` was requested by a reader that expected records up to `end`.
    """

    partition: TopicPartition
    start: int
    end: int | None
    first: int | None
    last: int | None
    is_recreated: bool = False

    @property
    def is_beyond(self) -> bool:
        """Whether the log ends before the range."""
        return self.last is not None and self.start >= self.last

    def __str__(self) -> str:
        if self.first is None or self.last is None:
            why = "the topic was deleted and created again" if self.is_recreated else "the partition no longer exists"
            return f"{self.partition}: {_span(self.start, self.end)} ({why})"
        has = f"has {_span(self.first, self.last)}" if self.last > self.first else f"is empty at offset {self.last}"
        if self.is_beyond:
            has += f", and ends at {self.last}, before {self.end}"
        return f"{self.partition}: {_span(self.start, self.end)} (the log now {has})"


def _span(start: int, end: int | None) -> str:
    if end is None:
        return f"offset {start} and later ones"
    return f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"


class DataLossError(SourceError, name="DATA_LOSS"):
    """Records to read are no longer in the log, or not in this log.

    Parameters:
        lost: the lost ranges.

    Attributes:
        lost: the same.
    """

    def __init__(self, lost: Sequence[Lost]) -> None:
        why = "Retention or DeleteRecords removed them, or the topic was truncated or created again"
        if any(one.is_beyond for one in lost):
            why += "; or an offset beyond the end was given by mistake"
        super().__init__(
            f"records to read are lost: {'; '.join(map(str, lost))}. {why}. "
            "To continue with the existing records, set failOnDataLoss=false"
        )
        self.lost = tuple(lost)


class source_errors:
    """Convert Kafka's errors in the block to a `SourceError`, without causes and inner frames.

    Parameters:
        servers: the bootstrap servers, as in the option.

    Raises:
        SourceError: instead of a KafkaError.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, SourceError):
            # The error leaves by itself, so that the frame with the `with` statement is omitted too.
            error.__traceback__ = error.__cause__ = None
            error.__suppress_context__ = True
        elif isinstance(error, KafkaError):
            raise _translated(error, self._servers) from None


def as_in_spark(said: object) -> str:
    """Return a message of the client with options as they are called in Spark: `kafka.max.block.ms`, not
    `max_block_ms`.

    Names in quotes and names of topics stay unchanged, and so do options of one word (`acks`).
    """
    names = _names()
    pattern = rf"(?<!topic )(?<![\w.'\"-])({'|'.join(names)})(?![\w'\"-])"
    return re.sub(pattern, lambda found: names[found[1]], str(said))


@functools.cache
def _names() -> dict[str, str]:
    """Return Spark's name of each option by the client's name."""
    return {
        name: f"kafka.{dotted_name(config, name)}"
        for config in (ProducerConfig, ConsumerConfig, AdminConfig)
        for name in config.__struct_fields__
        if "_" in name
    }


def _translated(error: KafkaError, servers: str) -> SourceError:
    if isinstance(error, ConfigError):
        return OptionError(as_in_spark(error.message))
    if isinstance(error, UnknownTopicOrPartitionError):
        what = f"partition {error.topic}-{error.partition}" if error.partition is not None else f"topic {error.topic!r}"
        return SourceError(f"there is no {what} on {servers}")
    if isinstance(error, AuthorizationError):
        return SourceError(f"Kafka on {servers} does not allow this: {as_in_spark(error)}")
    if isinstance(error, KafkaTimeoutError | RecordNotAcceptedError):
        return SourceError(f"Kafka on {servers} did not answer: {as_in_spark(error)}")
    return SourceError(f"Kafka on {servers}: {as_in_spark(error)}")
