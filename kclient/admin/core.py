"""What all admin calls share: finding the right broker, and gathering results by key.

A call on many things is a keyed operation: each key succeeds or fails on its own, the ones that failed
with a retriable error are tried again until the deadline, and at the end either all results are returned
or one AdminError carries results and errors. Leaves out every single API.
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
from kclient.types import ClientHealth, TopicPartition

K = TypeVar("K")
N = TypeVar("N")
R = TypeVar("R")

Outcomes = dict[K, R | KafkaError]
"""What one attempt came to: a result or an error for each key."""


class AdminCore(Requester):
    """One engine and the helpers that the areas are written with; shared by both faces.

    Parameters:
        config: the client's options.
        run_soon: runs the application's callbacks in its event loop; None to run them in a thread of their own.
    """

    def __init__(self, config: AdminConfig, run_soon: Callable[[Callable[[], None]], None] | None = None) -> None:
        self.config = config
        engine = Engine(config, name="kclient-admin", run_soon=run_soon)
        super().__init__(engine, retry_backoff(config, current().random()), config.request_timeout_ms / 1000)
        engine.start()

    def deadline(self, name: str, timeout: float | None) -> Deadline:
        """The deadline of a call: the given seconds, else default_api_timeout_ms."""
        default = self.config.default_api_timeout_ms / 1000
        return super().deadline(name, default if timeout is None else duration(timeout, f"{name}(timeout=)"))

    def controller(self) -> int:
        """Whom to ask for changes: the controller, as far as the metadata names one (with KRaft any broker will do)."""
        cluster = self.engine.metadata.cluster
        controller = cluster.controller_id
        return ANY_NODE if controller is None or controller not in cluster.brokers else controller

    def keyed(
        self,
        keys: Iterable[K],
        attempt: Callable[[list[K]], Operation[Outcomes[K, R]]],
        deadline: Deadline,
    ) -> Operation[dict[K, R]]:
        """Run `attempt` for the keys, and again for those whose error is transient.

        Raises:
            AdminError: some keys failed; it has the results of the others.
            KafkaError: what stopped the call before any key was decided.
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
                outcome = outcomes.get(key, KafkaError(f"the broker's answer left out {key}"))
                if not isinstance(outcome, KafkaError):
                    results[key] = outcome
                    errors.pop(key, None)
                    continue
                if key in errors and isinstance(outcome, KafkaTimeoutError) and deadline.passed:
                    outcome = deadline.error(errors[key])
                errors[key] = outcome
                if is_transient(outcome) and not deadline.passed:
                    again.append(key)
            pending = again
        if errors:
            raise AdminError(results, {key: errors[key] for key in order if key in errors})
        return {key: results[key] for key in order}

    def gather(
        self, calls: Mapping[N, Operation[Outcomes[K, R]]], keys: Mapping[N, list[K]]
    ) -> Operation[Outcomes[K, R]]:
        """Run the calls to several brokers at once; a call that fails as a whole fails for each of its keys."""
        outcomes: Outcomes[K, R] = {}
        for name, found in (yield from gather(calls)).items():
            outcomes.update(dict.fromkeys(keys[name], found) if isinstance(found, KafkaError) else found)
        return outcomes

    def leaders(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> Operation[tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaError]]]:
        """Ask for fresh leaders: the partitions by leader, and the error of those without one."""
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
        """The face is gone: stop without waiting, and warn if nobody closed it."""
        was_open = not self.engine.closed
        self.engine.close(0.0)
        if was_open and self.engine.closed:  # not so in a forked child, whose parent may well close it
            warnings.warn(f"{face} {self.config.client_id!r} was not closed", ResourceWarning, stacklevel=3)


def succeeded(call: Operation[dict[K, R]]) -> Operation[tuple[dict[K, R], dict[K, BaseException]]]:
    """What a call on many things comes to, for one that goes on with what succeeded: the results, and the errors."""
    try:
        return (yield from call), {}
    except AdminError as error:
        return error.results, error.errors
