"""Checks that a consumer and a producer can form an exactly-once loop; the errors say what to change."""

from __future__ import annotations

import inspect

from kclient.config import ConsumerConfig, ProducerConfig
from kclient.consumer import AsyncConsumer, Consumer
from kclient.errors import ConfigError
from kclient.producer import AsyncProducer, Producer


def check_faces(consumer: object, producer: object, *, are_async: bool) -> None:
    """Check that the two clients are of the same kind as the loop.

    Raises:
        TypeError: one is not.
    """
    if are_async and isinstance(consumer, AsyncConsumer) and isinstance(producer, AsyncProducer):
        return
    if not are_async and isinstance(consumer, Consumer) and isinstance(producer, Producer):
        return
    raise TypeError(
        "Transform takes a Consumer and a Producer, AsyncTransform an AsyncConsumer and an AsyncProducer, not "
        f"{consumer!r} and {producer!r}"
    )


def check_functions(*functions: object, awaits: bool) -> None:
    """Check the functions that the loop is to call, before it has read anything.

    Parameters:
        functions: the function for records and the one for errors, or None.
        awaits: whether they may be coroutine functions.

    Raises:
        TypeError: one cannot be called, or would have to be awaited.
    """
    for function in functions:
        if function is None:
            continue
        if not callable(function):
            raise TypeError(f"a transform calls a function of one record, not {function!r}")
        if not awaits and (inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)):
            raise TypeError(
                f"{function!r} would have to be awaited, which AsyncTransform does; Transform takes plain functions"
            )


def check_clients(consumer: ConsumerConfig, producer: ProducerConfig, *, allow_read_uncommitted: bool) -> None:
    """Check the options of the two clients.

    Raises:
        ConfigError: offsets would be committed without the results, or records read that may be aborted.
    """
    if consumer.group_id is None:
        raise ConfigError("the consumer of a transform needs a group_id: its offsets are committed with the results")
    if consumer.enable_auto_commit:
        raise ConfigError(
            "the consumer of a transform needs enable_auto_commit=False: automatic commits do not depend on the results"
        )
    if consumer.isolation_level != "read_committed" and not allow_read_uncommitted:
        raise ConfigError(
            'the consumer of a transform needs isolation_level="read_committed", because results of records that '
            "are aborted later would remain; to allow that, pass allow_read_uncommitted=True"
        )
    if producer.transactional_id is None:
        raise ConfigError(
            "the producer of a transform needs a transactional_id: a different one for each concurrent process, "
            "and the same one after a restart"
        )


def check_limits(max_records: int, max_seconds: float, producer: ProducerConfig) -> None:
    """Check the limits of a batch.

    Raises:
        ConfigError: a batch would never be committed, or after the transaction's timeout.
    """
    if max_records < 1:
        raise ConfigError(f"max_records must be at least 1, not {max_records}")
    if not 0 <= 1000 * max_seconds < producer.transaction_timeout_ms:
        raise ConfigError(
            f"max_seconds must be 0 or more, and less than transaction_timeout_ms ({producer.transaction_timeout_ms}), "
            f"after which the coordinator aborts the transaction; not {max_seconds:g}"
        )
