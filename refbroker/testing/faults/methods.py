"""The words in which a test asks for faults: the same in this process and over a control port.

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
    """Which requests a fault is for.

    Attributes:
        topic, partition: only requests that name these.
        client_id: only of clients that call themselves so.
        version: only requests of this version of the API.
        count: how many requests, 1 unless given; None for all, until the fault is removed.
    """

    topic: NotRequired[str | None]
    partition: NotRequired[int | None]
    client_id: NotRequired[str | None]
    version: NotRequired[int | None]
    count: NotRequired[int | None]


class Fault(ABC):
    """A fault that was asked for. As a context manager it is removed at the end."""

    @property
    @abstractmethod
    def rule(self) -> Rule:
        """What it is."""

    @property
    @abstractmethod
    def fired(self) -> int:
        """How many requests it has struck."""

    @abstractmethod
    def wait(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until it has struck so many requests.

        Parameters:
            count: how many, from the beginning.
            timeout: in seconds.

        Raises:
            TimeoutError: it has not.
        """

    @abstractmethod
    def remove(self) -> None:
        """Let it strike no more; what it delays goes on at once. Nothing happens when it is removed already."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.remove()


class FaultMethods(ABC):
    """What a test can ask for. Everything may be called by any thread, before the broker runs too.

    `api` is Kafka's name or key of an API, as "Produce", or "*" for every one; `when` says whether the fault strikes
    before a request takes effect or after; the rest says which requests it is for (`Matching`). All raise ConfigError
    for what cannot be.
    """

    @abstractmethod
    def add(self, rule: Rule) -> Fault:
        """Add a rule that was made elsewhere."""

    @abstractmethod
    def list(self) -> list[Fault]:
        """The faults that were not removed, the oldest first; also those that have struck all their requests."""

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

        With `topic` or `partition` only these carry it, and the rest of the request is carried out as ever; without,
        the whole answer does, wherever it has a place for a code. "after" lets the request take effect and says
        that it has not. A producer that wants no answer (acks=0) has its connection closed, as Kafka does.

        Parameters:
            error: Kafka's name or code of it, its class, or an error.
            message: the text beside the code, where the API has one; the error's own by default.
        """
        text: dict[str, Any] = {} if message is None else {"message": message}
        return self.add(Rule.make(Action.FAIL, api, error=error, when=when, **text, **matching))

    def delay(
        self, api: str | int, seconds: float | None = None, *, when: Moment = "before", **matching: Unpack[Matching]
    ) -> Fault:
        """Wait before a request takes effect, or before it is answered. Requests behind it on its connection wait too.

        Parameters:
            seconds: how long, by the real time; None until the fault is removed.
        """
        return self.add(Rule.make(Action.DELAY, api, when=when, seconds=seconds, **matching))

    def drop(self, api: str | int, *, when: Moment = "before", **matching: Unpack[Matching]) -> Fault:
        """Never answer, as a broker that hangs: the connection stays open, and nothing behind it is handled either."""
        return self.add(Rule.make(Action.DROP, api, when=when, **matching))

    def cut(self, api: str | int, *, when: Moment = "before", **matching: Unpack[Matching]) -> Fault:
        """Close the connection in place of an answer. Answers to earlier requests are sent first."""
        return self.add(Rule.make(Action.CUT, api, when=when, **matching))

    def corrupt(self, api: str | int, **matching: Unpack[Matching]) -> Fault:
        """Flip one bit in the records: of a Fetch in what is sent, of a Produce in what has arrived.

        It is a bit that the checksum of the first batch covers. An answer without records is left alone, and does not
        count.
        """
        return self.add(Rule.make(Action.CORRUPT, api, **matching))

    def truncate(self, api: str | int, **matching: Unpack[Matching]) -> Fault:
        """Send the first half of the answer, and close the connection."""
        return self.add(Rule.make(Action.TRUNCATE, api, **matching))
