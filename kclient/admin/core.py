"""The helpers of all admin calls: finding the right broker, and collecting results by key.

A call with several keys is a keyed operation: each key succeeds or fails separately, keys with a retriable error are
retried until the deadline, and then the call returns all results or raises an AdminError with results and errors.
Elsewhere: the calls themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kclient.admin.arguments import duration
from kclient.config import AdminConfig
from kclient.errors import (
    AdminError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from kclient.net.backoff import retry_backoff
from kclient.net.deadline import Deadline
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation, gather
from kclient.net.requesting import Requester, is_transient
from kclient.net.runtime import current
from kclient.net.waiting import LoopBridge
from kclient.types import ClientHealth, TopicPartition

K = TypeVar("K")
N = TypeVar("N")
R = TypeVar("R")

Outcomes = dict[K, R | KafkaError]
"""The result of one attempt: a value or an error for each key."""


class AdminCore(Requester):
    """One engine and the helpers for admin calls, shared by `Admin` and `AsyncAdmin`.

    Parameters:
        config: the client's options.
        bridge: the bridge into the event loop of an async client; None for a blocking one.
    """

    def __init__(self, config: AdminConfig, bridge: LoopBridge | None = None) -> None:
        self.config = config
        engine = Engine(config, name="kclient-admin", bridge=bridge)
        super().__init__(engine, retry_backoff(config, current().random()), config.request_timeout_ms / 1000)
        engine.start()

    def deadline(self, name: str, timeout: float | None) -> Deadline:
        """Return the deadline of a call: the given seconds, or default_api_timeout_ms."""
        default = self.config.default_api_timeout_ms / 1000
        return super().deadline(name, default if timeout is None else duration(timeout, f"{name}(timeout=)"))

    def controller(self) -> int:
        """Return the controller, if the metadata has one (with KRaft any broker forwards changes)."""
        cluster = self.engine.metadata.cluster
        controller = cluster.controller_id
        return ANY_NODE if controller is None or controller not in cluster.brokers else controller

    def keyed(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Operation[Outcomes[K, R]]],
        deadline: Deadline,
    ) -> Operation[dict[K, R]]:
        """Run `attempt` for the keys, and again for those with a transient error.

        Raises:
            AdminError: some keys failed; it has the results of the others.
            KafkaError: the call failed as a whole.
        """
        order = list(dict.fromkeys(keys))
        results: dict[K, R] = {}
        errors: dict[K, KafkaError] = {}
        attempts = 0
        pending = order
        while pending:
            try:
                if attempts:
                    yield from self.back_off(attempts, deadline, errors[pending[0]])
                outcomes = yield from attempt(pending)
            except KafkaError as error:
                late = isinstance(error, KafkaTimeoutError)
                if len(pending) == len(order):
                    if late and errors:
                        raise deadline.error(errors[pending[0]]) from error
                    raise
                errors |= {key: deadline.error(errors[key]) if late else error for key in pending}
                break
            attempts += 1
            again: list[K] = []
            for key in pending:
                outcome = outcomes.get(key, _unanswered(key))
                if not isinstance(outcome, KafkaError):
                    results[key] = outcome
                    errors.pop(key, None)
                    continue
                if not deadline.passed:
                    if is_transient(outcome):
                        again.append(key)
                elif not isinstance(outcome, KafkaTimeoutError):
                    outcome = deadline.error(outcome) if is_transient(outcome) else outcome
                elif key in errors:
                    outcome = deadline.error(errors[key])
                errors[key] = outcome
            pending = again
        if errors:
            raise AdminError(results, {key: errors[key] for key in order if key in errors})
        return {key: results[key] for key in order}

    def live_brokers(self, deadline: Deadline) -> Operation[set[int]]:
        """Request metadata; return the ids of the brokers that are alive."""
        answer = yield from self.ask_metadata([], deadline)
        return {node.node_id for node in answer.brokers}

    def gather(
        self, calls: Mapping[N, Operation[Outcomes[K, R]]], keys: Mapping[N, list[K]]
    ) -> Operation[Outcomes[K, R]]:
        """Send requests to several brokers at once; a request that fails as a whole fails for each of its keys."""
        outcomes: Outcomes[K, R] = {}
        for name, found in (yield from gather(calls)).items():
            outcomes.update(dict.fromkeys(keys[name], found) if isinstance(found, KafkaError) else found)
        return outcomes

    def leaders(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> Operation[tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaError]]]:
        """Request metadata; return the partitions by leader, and the error of those without one."""
        wanted = list(partitions)
        topics = sorted({partition.topic for partition in wanted})
        answer = yield from self.ask_metadata(topics, deadline)
        found: dict[TopicPartition, int | KafkaError] = {}
        for topic in answer.topics:
            if topic.error_code:
                error = error_from_code(topic.error_code, topic=topic.name)
                found |= {partition: error for partition in wanted if partition.topic == topic.name}
            for entry in topic.partitions:
                key = TopicPartition(topic.name or "", entry.partition_index)
                found[key] = (
                    error_from_code(entry.error_code, topic=topic.name, partition=entry.partition_index)
                    if entry.error_code
                    else entry.leader_id
                )
        by_leader: dict[int, list[TopicPartition]] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        for partition in wanted:
            leader = found.get(
                partition, UnknownTopicOrPartitionError(topic=partition.topic, partition=partition.partition)
            )
            if isinstance(leader, KafkaError):
                errors[partition] = leader
            else:
                by_leader.setdefault(leader, []).append(partition)
        return by_leader, errors

    def health(self) -> ClientHealth:
        """See `Admin.health`."""
        return ClientHealth(self.engine.connectivity())

    def close(self, timeout: float | None) -> None:
        """See `Admin.close`."""
        self.engine.close(self.config.close_timeout_ms / 1000 if timeout is None else timeout)

    def drop(self, face: str) -> None:
        """Stop without waiting, and warn if the client was not closed."""
        was_open = not self.engine.closed
        self.engine.close(0.0)
        if was_open and self.engine.closed:  # in a forked child, whose parent may still close it
            warnings.warn(f"{face} {self.config.client_id!r} was not closed", ResourceWarning, stacklevel=3)


def settled(keys: Iterable[K], outcomes: Outcomes[K, R]) -> dict[K, R]:
    """Return the results of a call that is not repeated, since a broker's error would stay the same.

    Raises:
        AdminError: some keys failed; it has the results of the others.
    """
    order = list(dict.fromkeys(keys))
    results: dict[K, R] = {}
    errors: dict[K, KafkaError] = {}
    for key in order:
        outcome = outcomes.get(key, _unanswered(key))
        if isinstance(outcome, KafkaError):
            errors[key] = outcome
        else:
            results[key] = outcome
    if errors:
        raise AdminError(results, errors)
    return results


def succeeded(call: Operation[dict[K, R]]) -> Operation[tuple[dict[K, R], dict[K, BaseException]]]:
    """Return the results and the errors of a keyed call, for callers that continue with the successful keys."""
    try:
        return (yield from call), {}
    except AdminError as error:
        return error.results, error.errors


def _unanswered(key: object) -> KafkaError:
    return KafkaError(f"the broker's response did not contain {key}")
