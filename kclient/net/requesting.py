"""Requests of application calls: sent once, or retried until the broker responds or the deadline passes.

Requests that fail with a transient error (a lost connection, a timeout, a leader or controller that moves) are retried
with the backoff of the client's options. Admin and consumer share this.

Elsewhere: the requests of each API, and those that managers send on the network thread by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kclient.errors import KafkaError, KafkaTimeoutError, NotControllerError, UnknownTopicOrPartitionError
from kclient.net.backoff import Backoff
from kclient.net.deadline import Deadline
from kclient.net.engine import Engine
from kclient.net.failures import unknown_broker
from kclient.net.manager import ANY_NODE
from kclient.net.operation import Operation, Pause, Result
from kclient.protocol import Message
from kclient.protocol.messages.metadata import MetadataRequest, MetadataResponse

R = TypeVar("R")


class Requester:
    """The requests of one client's calls.

    Parameters:
        engine: the client's engine.
        backoff: the waits between retries.
        request_timeout: seconds that one request may take.
    """

    def __init__(self, engine: Engine, backoff: Backoff, request_timeout: float) -> None:
        self.engine = engine
        self._backoff = backoff
        self._request_timeout = request_timeout

    def deadline(self, name: str, timeout: float) -> Deadline:
        """Return the deadline of a call with this timeout in seconds; raise if the client is unusable."""
        self.engine.check_usable()
        return Deadline(name, timeout, self.engine.nodes.last_error, self.engine.clock)

    def request(
        self,
        node: int,
        request_type: type[Message],
        build: Callable[[int], Message],
        deadline: Deadline,
        minimum_version: int | None = None,
        maximum_version: int | None = None,
    ) -> Operation[Any]:
        """Send a request once to a broker (or ANY_NODE), when its address is known."""
        yield from self.wait_for_broker(node, deadline)
        response = self.engine.call(
            node,
            request_type,
            build,
            timeout=min(deadline.remaining(), self._request_timeout),
            minimum_version=minimum_version,
            maximum_version=maximum_version,
        )
        try:
            return (yield Result(response, deadline.at))
        except KafkaTimeoutError:
            if deadline.passed:
                raise deadline.error() from None
            raise

    def request_until_answered(
        self,
        node: int,
        request_type: type[Message],
        build: Callable[[int], Message],
        deadline: Deadline,
        minimum_version: int | None = None,
    ) -> Operation[Any]:
        """Send a request until the broker responds."""
        return (
            yield from self.retry(lambda: self.request(node, request_type, build, deadline, minimum_version), deadline)
        )

    def retry(self, attempt: Callable[[], Operation[R]], deadline: Deadline) -> Operation[R]:
        """Repeat an operation while it fails with a transient error and the deadline has not passed."""
        attempts = 0
        last: KafkaError | None = None
        while True:
            try:
                return (yield from attempt())
            except KafkaError as error:
                if not is_transient(error):
                    raise
                if last is not None and deadline.passed and isinstance(error, KafkaTimeoutError):
                    raise deadline.error(last) from error
                attempts += 1
                last = error.without_frames()
                yield from self.back_off(attempts, deadline, error)

    def back_off(self, attempts: int, deadline: Deadline, error: KafkaError) -> Operation[None]:
        """Wait after a failed attempt; raise when no time is left for another one."""
        if deadline.passed:
            if isinstance(error, KafkaTimeoutError):
                raise error
            raise deadline.error(error) from error
        if error.refreshes_metadata or isinstance(error, NotControllerError):
            self.engine.metadata.request_update()
        clock = self.engine.clock
        until = clock() + min(self._backoff.seconds(attempts), deadline.remaining())
        while (left := until - clock()) > 0:  # another notification may end a pause early
            yield Pause(left)

    def wait_for_broker(self, node: int, deadline: Deadline) -> Operation[None]:
        """Wait until the metadata has the address of a broker."""
        attempts = 0
        while node >= 0 and node not in self.engine.metadata.cluster.brokers:
            self.engine.metadata.request_update()
            attempts += 1
            yield from self.back_off(attempts, deadline, unknown_broker(node))

    def metadata(
        self, node: int, topics: list[str] | None, deadline: Deadline, *, create: bool = False
    ) -> Operation[MetadataResponse]:
        """Request the metadata of topics once from a broker.

        Parameters:
            topics: their names; None for all.
            create: whether the broker may create a named topic; before version 4 the broker decides.
        """

        def build(version: int) -> MetadataRequest:
            wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
            may_create = version < 4 or (create and topics is not None)
            return MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create)

        response: MetadataResponse = yield from self.request(node, MetadataRequest, build, deadline)
        return response

    def ask_metadata(self, topics: list[str] | None, deadline: Deadline) -> Operation[MetadataResponse]:
        """Request the metadata of topics (None for all) until any broker responds; never creates one."""
        return (yield from self.retry(lambda: self.metadata(ANY_NODE, topics, deadline), deadline))


def is_transient(error: KafkaError) -> bool:
    """Return whether an error is transient: a missing response, a leader or a controller that moves.

    A missing topic is not: retries would only hide it until the timeout.
    """
    return error.retriable and not isinstance(error, UnknownTopicOrPartitionError)
