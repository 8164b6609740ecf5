"""What goes wrong between Spark and Kafka, in words for the person at the notebook.

Spark hands on an exception of Python as text, after the traceback: the last lines are all that is read. So causes are
not chained, and an error says in one sentence what happened and what can be done.
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
    """The data source could not do what Spark asked for."""


class MissingRequirementError(SourceError, name="MISSING_REQUIREMENT"):
    """Something that has to be installed is not, or is too old."""


class OptionError(SourceError, ConfigError, name="SPARK_OPTION"):
    """An option of the data source does not exist, has a value it cannot have, or contradicts another one."""


class Lost(NamedTuple):
    """Offsets that were to be read and cannot be: from `start` until before `end`; None where that is not known.

    `first` and `last` are where the log begins and ends now; None where there is none, or where it is that of another
    topic of the same name (`is_anew`). What begins at its end was asked for by somebody who took it to go on until
    `end`.
    """

    partition: TopicPartition
    start: int
    end: int | None
    first: int | None
    last: int | None
    is_anew: bool = False

    @property
    def is_beyond(self) -> bool:
        """Whether the log ends before it."""
        return self.last is not None and self.start >= self.last

    def __str__(self) -> str:
        if self.first is None or self.last is None:
            why = "the topic was deleted and created anew" if self.is_anew else "the partition does not exist any more"
            return f"{self.partition}: {_span(self.start, self.end)} ({why})"
        has = f"has {_span(self.first, self.last)}" if self.last > self.first else f"is empty at offset {self.last}"
        if self.is_beyond:
            has += f", and ends at {self.last}, before {self.end}"
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
        why = "Retention or DeleteRecords removed them, or the topic was truncated or created anew"
        if any(one.is_beyond for one in lost):
            why += "; or an offset beyond the end was given by mistake"
        super().__init__(
            f"records are gone that were to be read: {'; '.join(map(str, lost))}. {why}. "
            "To go on with what is there: failOnDataLoss=false"
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
            # It goes on by itself, so that the frame with the `with` is left out too.
            error.__traceback__ = error.__cause__ = None
            error.__suppress_context__ = True
        elif isinstance(error, KafkaError):
            raise _translated(error, self._servers) from None


def as_in_spark(said: object) -> str:
    """What the client says, with its options as they are called in Spark: `kafka.max.block.ms`, not `max_block_ms`.

    Names in quotes, and those of topics, are the user's own. Options of one word (`acks`) stay as they are.
    """
    names = _names()
    pattern = rf"(?<!topic )(?<![\w.'\"-])({'|'.join(names)})(?![\w'\"-])"
    return re.sub(pattern, lambda found: names[found[1]], str(said))


@functools.cache
def _names() -> dict[str, str]:
    """By the client's name of an option, that in Spark."""
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
