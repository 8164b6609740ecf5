"""The methods that add faults, the same in this process and over a control port.

with kafka.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="orders", count=3) as fault:
    ...
    fault.wait(3)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Literal, NotRequired, Self, TypedDict, Unpack

from kclient.errors import KafkaError
from refbroker.testing.faults.rule import Action, Rule

Moment = Literal["before", "after"]


class Matching(TypedDict):
    """The requests that a fault applies to.

    Attributes:
        topic, partition: only requests that name these.
        client_id: only requests of clients with this id.
        version: only requests of this version of the API.
        count: the number of requests, by default 1; None for all until the fault is removed.
    """

    topic: NotRequired[str | None]
    partition: NotRequired[int | None]
    client_id: NotRequired[str | None]
    version: NotRequired[int | None]
    count: NotRequired[int | None]


class Fault(ABC):
    """An active fault. As a context manager it is removed at the end."""

    @property
    @abstractmethod
    def rule(self) -> Rule:
        """The rule of the fault."""

    @property
    @abstractmethod
    def fired(self) -> int:
        """The number of requests it was applied to."""

    @abstractmethod
    def wait(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until it was applied to this many requests.

        Parameters:
            count: the number of requests, from the beginning.
            timeout: in seconds.

        Raises:
            TimeoutError: it was not, in time.
        """

    @abstractmethod
    def remove(self) -> None:
        """Apply it to no further request; delayed requests continue immediately. Does nothing if it was removed
        before.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class FaultMethods(ABC):
    """The faults that a test can add. Any thread may call any method, also before the broker runs.

    `api` is Kafka's name or key of an API, as "Produce", or "*" for every one; `when` decides whether the fault is
    applied before or after a request takes effect; the rest selects the requests (`Matching`). All raise ConfigError
    for an invalid rule.
    """

    @abstractmethod
    def add(self, rule: Rule) -> Fault:
        """Add a rule."""

    @abstractmethod
    def list(self) -> list[Fault]:
        """Return the faults that were not removed, the oldest first, including exhausted ones."""

    def clear(self) -> None:
        """Remove all faults."""
        for fault in self.list():
            fault.remove()

    def fail(
        self,
        api: str | int,
        error: str | int | type[KafkaError] | KafkaError,
        *,
        when: Moment = "before",
        message: str | None = None,
        **matching: Unpack[Matching],
    ) -> Fault:
        """Answer with an error.

        With `topic` or `partition` only these have the error, and the rest of the request is executed normally;
        without, every code of the response has it. With "after" the request takes effect, and the response says that it
        has not. The connection of a producer without responses (acks=0) is closed, as in Kafka.

        Parameters:
            error: Kafka's name or code of the error, its class, or an instance.
            message: the message beside the code, if the API has one; by default the error's own.
        """
        text: dict[str, Any] = {} if message is None else {"message": message}
        return self.add(Rule.make(Action.FAIL, api, error=error, when=when, **text, **matching))

    def delay(
        self, api: str | int, seconds: float | None = None, *, when: Moment = "before", **matching: Unpack[Matching]
    ) -> Fault:
        """Wait before a request takes effect, or before its response. Later requests of its connection wait too.

        Parameters:
            seconds: how long, in real time; None until the fault is removed.
        """
        return self.add(Rule.make(Action.DELAY, api, when=when, seconds=seconds, **matching))

    def drop(self, api: str | int, *, when: Moment = "before", **matching: Unpack[Matching]) -> Fault:
        """Never respond, like a broker that hangs: the connection stays open, and later requests on it are not
        handled.
        """
        return self.add(Rule.make(Action.DROP, api, when=when, **matching))

    def cut(self, api: str | int, *, when: Moment = "before", **matching: Unpack[Matching]) -> Fault:
        """Close the connection instead of a response. Responses to earlier requests are sent first."""
        return self.add(Rule.make(Action.CUT, api, when=when, **matching))

    def corrupt(self, api: str | int, **matching: Unpack[Matching]) -> Fault:
        """Flip one bit in the records: of a Fetch response, or of a Produce request.

        The checksum of the first batch covers the bit. A response without records is unchanged, and does not count.
        """
        return self.add(Rule.make(Action.CORRUPT, api, **matching))

    def truncate(self, api: str | int, **matching: Unpack[Matching]) -> Fault:
        """Send the first half of the response, and close the connection."""
        return self.add(Rule.make(Action.TRUNCATE, api, **matching))
