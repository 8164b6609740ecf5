"""What all admin calls share: finding the right broker, repeating what a retry may help, gathering results.

A call on many things is a keyed operation: each key succeeds or fails on its own, the ones that failed
with a retriable error are tried again until the deadline, and at the end either all results are returned
or one AdminError carries results and errors. Leaves out every single API.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from kclient.admin.arguments import duration
from kclient.config import AdminConfig
from kclient.errors import (
    AdminError,
    DisconnectedError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
    error_from_code,
)
from kclient.net.backoff import retry_backoff
from kclient.net.deadline import Deadline
from kclient.net.engine import Engine
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation, Pause, Result
from kclient.protocol import Message
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kclient.types import TopicPartition

M = TypeVar("M", bound=Message)
K = TypeVar("K")
R = TypeVar("R")

Outcomes = dict[K, R | KafkaError]
"""What one attempt came to: a result or an error for each key."""


class AdminCore:
    """One engine and the helpers that the areas are written with; shared by both faces."""

    def __init__(self, config: AdminConfig) -> None:
        self.config = config
        self._backoff = retry_backoff(config, random.Random())
        self.engine = Engine(config, name="kclient-admin")
        self.engine.start()

    def deadline(self, name: str, timeout: float | None) -> Deadline:
        """The deadline of a call: the given seconds, else default_api_timeout_ms."""
        self.engine.check_usable()
        allowed = (
            self.config.default_api_timeout_ms / 1000 if timeout is None else duration(timeout, f"{name}(timeout=)")
        )
        return Deadline(name, allowed, self.engine.nodes.last_error)

    def request(
        self,
        node: int,
        request_type: type[Message],
        build: Callable[[int], Message],
        deadline: Deadline,
        minimum_version: int | None = None,
        maximum_version: int | None = None,
    ) -> Operation[Any]:
        """Ask one broker (or ANY_NODE) once, when its address is known."""
        yield from self.known(node, deadline)
        timeout = min(deadline.remaining(), self.config.request_timeout_ms / 1000)
        answer = self.engine.call(
            node,
            request_type,
            build,
            timeout=timeout,
            minimum_version=minimum_version,
            maximum_version=maximum_version,
        )
        try:
            return (yield Result(answer, deadline.at))
        except KafkaTimeoutError:
            if deadline.passed:
                raise deadline.error() from None
            raise

    def ask(
        self,
        node: int,
        request_type: type[Message],
        build: Callable[[int], Message],
        deadline: Deadline,
        minimum_version: int | None = None,
    ) -> Operation[Any]:
        """Ask a broker until it answers: lost connections and timed-out requests are repeated."""
        return (
            yield from self.retrying(
                lambda: self.request(node, request_type, build, deadline, minimum_version), deadline
            )
        )

    def retrying(self, attempt: Callable[[], Operation[R]], deadline: Deadline) -> Operation[R]:
        """Repeat an operation while it fails with a retriable error and there is time."""
        attempts = 0
        while True:
            try:
                return (yield from attempt())
            except KafkaError as error:
                if not can_pass(error):
                    raise
                attempts += 1
                yield from self.back_off(attempts, deadline, error)

    def back_off(self, attempts: int, deadline: Deadline, error: KafkaError) -> Operation[None]:
        """Wait after so many failed attempts; raise when there is no time for another one."""
        if deadline.passed:
            if isinstance(error, KafkaTimeoutError):
                raise error
            raise deadline.error(error) from error
        if error.refreshes_metadata:
            self.engine.metadata.request_update()
        yield Pause(min(self._backoff.seconds(attempts), deadline.remaining()))

    def known(self, node: int, deadline: Deadline) -> Operation[None]:
        """Wait until the metadata has the address of a broker."""
        attempts = 0
        while node >= 0 and node not in self.engine.metadata.cluster.brokers:
            self.engine.metadata.request_update()
            attempts += 1
            yield from self.back_off(attempts, deadline, DisconnectedError(f"broker {node} is not in the metadata"))

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
        """Run `attempt` for the keys, and again for those whose error can pass.

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
                if can_pass(outcome) and not deadline.passed:
                    again.append(key)
            pending = again
        if errors:
            raise AdminError(results, {key: errors[key] for key in order if key in errors})
        return {key: results[key] for key in order}

    def gather(
        self, calls: Mapping[Any, Operation[Outcomes[K, R]]], keys: Mapping[Any, list[K]]
    ) -> Operation[Outcomes[K, R]]:
        """Run the calls to several brokers at once; a call that fails as a whole fails for each of its keys."""
        outcomes: Outcomes[K, R] = {}
        waiting = {name: (call, _advance(call, None)) for name, call in calls.items()}
        for name, (call, step) in waiting.items():
            while not isinstance(step, _Finished):
                try:
                    answer = yield step
                except KafkaError as error:
                    step = _advance(call, error)
                else:
                    step = _advance(call, answer)
            outcomes.update(
                step.value if not isinstance(step.value, KafkaError) else dict.fromkeys(keys[name], step.value)
            )
        return outcomes

    def leaders(
        self, partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> Operation[tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaError]]]:
        """Ask for fresh leaders: the partitions by leader, and the error of those without one."""
        wanted = list(partitions)
        topics = sorted({partition.topic for partition in wanted})
        answer = yield from self.metadata(topics, deadline)
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

    def metadata(self, topics: list[str] | None, deadline: Deadline) -> Operation[MetadataResponse]:
        """Ask any broker about topics (None: all) until it answers; never creates one."""
        return (yield from self.retrying(lambda: self.metadata_of(ANY_NODE, topics, deadline), deadline))

    def metadata_of(self, node: int, topics: list[str] | None, deadline: Deadline) -> Operation[MetadataResponse]:
        """What one broker knows of topics; asks once."""

        def build(version: int) -> MetadataRequest:
            wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
            return MetadataRequest(topics=wanted, allow_auto_topic_creation=version < 4)

        answer: MetadataResponse = yield from self.request(node, MetadataRequest, build, deadline)
        return answer

    def close(self, timeout: float) -> None:
        self.engine.close(timeout)

    def drop(self, face: str) -> None:
        """The face is gone: stop without waiting, and warn if nobody closed it."""
        was_open = not self.engine.closed
        self.engine.close(0.0)
        if was_open and self.engine.closed:  # not so in a forked child, whose parent may well close it
            warnings.warn(f"{face} {self.config.client_id!r} was not closed", ResourceWarning, stacklevel=3)


class _Finished:
    """The end of an operation that runs beside others."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _advance(call: Operation[Any], answer: Any) -> Any:
    try:
        return call.throw(answer) if isinstance(answer, KafkaError) else call.send(answer)
    except StopIteration as stop:
        return _Finished(stop.value)
    except KafkaError as error:
        return _Finished(error)


def can_pass(error: KafkaError) -> bool:
    """Whether an error can pass by itself: an answer that never came, a leader or a controller that moves.

    A topic that is missing stays so: repeating would only hide it until the timeout.
    """
    return error.retriable and not isinstance(error, UnknownTopicOrPartitionError)


def succeeded(call: Operation[dict[K, R]]) -> Operation[tuple[dict[K, R], dict[K, BaseException]]]:
    """What a call on many things comes to, for one that goes on with what succeeded: the results, and the errors."""
    try:
        return (yield from call), {}
    except AdminError as error:
        return error.results, error.errors
