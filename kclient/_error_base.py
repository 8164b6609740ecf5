"""The base of all exceptions: their attributes, and their text.

The classes for the broker's error codes are in `_error_codes`, those of the client's own in
`errors`, which is also where users import all of them from.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self


class KafkaError(Exception):
    """Base of every error this package raises on purpose.

    Attributes:
        code: Kafka's numeric error code, or None when the error was found by the client itself.
        name: Kafka's name of the error, such as `OFFSET_OUT_OF_RANGE`, or the client's in the same style.
        retriable: whether the same request may succeed when sent again.
        refreshes_metadata: whether the client's view of the cluster is out of date.
        fatal: whether the client cannot continue with these credentials and this identity: bad credentials, no
            permission, a fenced id, a protocol the broker does not speak.
        abortable: whether abort_transaction() recovers from it; the producer then continues with the next transaction.
        message: what happened, without the context.
        topic, partition, offset, broker, api: where it happened, each None when it does not apply. `broker` is text
            such as `1 (localhost:9092)`; `api` is Kafka's name, such as `Fetch`.

    Without a message of its own an error says what its class documents.
    """

    code: int | None = None
    name: str = "KAFKA_ERROR"
    retriable: bool = False
    refreshes_metadata: bool = False
    fatal: bool = False
    abortable: bool = False

    def __init__(
        self,
        message: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        broker: object = None,
        api: str | None = None,
        offset: int | None = None,
    ) -> None:
        self.message = message or self.documented()
        super().__init__(self.message)
        self.topic = topic
        self.partition = partition
        self.broker = None if broker is None else str(broker)
        self.api = api
        self.offset = offset

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        retriable: bool | None = None,
        refreshes_metadata: bool | None = None,
        fatal: bool | None = None,
        abortable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if name is not None:
            cls.name = name
        if retriable is not None:
            cls.retriable = retriable
        if refreshes_metadata is not None:
            cls.refreshes_metadata = refreshes_metadata
        if fatal is not None:
            cls.fatal = fatal
        if abortable is not None:
            cls.abortable = abortable
        if cls.__module__.startswith("kclient._"):
            cls.__module__ = "kclient.errors"

    @classmethod
    def documented(cls) -> str:
        """Return what the docstring of the class says: what happened and, after a semicolon, what to do about it."""
        # `python -OO` strips docstrings; the name is still worth reading then.
        return " ".join((cls.__doc__ or cls.name).partition("\n\n")[0].split())

    def context(self) -> dict[str, object]:
        """Return where it happened: those of topic, partition, offset, broker and api that are known."""
        known = {name: getattr(self, name) for name in ("topic", "partition", "offset", "broker", "api")}
        return {name: value for name, value in known.items() if value is not None}

    def without_frames(self) -> Self:
        """Return a copy to keep or to raise again, without the traceback of this one."""
        return copy.copy(self)

    def __str__(self) -> str:
        where = ", ".join(f"{name} {value}" for name, value in self.context().items())
        text = f"{self.message}{f' [{where}]' if where else ''}"
        # An error of the client's own is explained by its class; a broker's has a name that users search for.
        if self.code is None:
            return text
        return f"{self.name} ({self.code}{', retriable' if self.retriable else ''}): {text}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.args, self.__dict__)


def _restore(cls: type[KafkaError], args: tuple[object, ...], state: dict[str, Any]) -> KafkaError:
    """Rebuild a pickled error without its constructor, whose parameters differ from class to class."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class BrokerError(KafkaError):
    """A broker answered with an error code."""

    code: int = -1
    by_code: ClassVar[dict[int, type[BrokerError]]] = {}

    def __init_subclass__(cls, *, code: int | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if code is not None:
            cls.code = code
            cls.by_code[code] = cls

    @classmethod
    def from_broker(cls, message: str | None, **context: Any) -> Self:
        """Make an error from the broker's message; the class adds what can be done about it."""
        advice = cls.documented().partition("; ")[2]
        if message and advice and advice.rstrip(".") not in message:
            message = f"{message.rstrip().rstrip('.')}; {advice}"
        return cls(message, **context)


class InvalidMetadataError(BrokerError, name="INVALID_METADATA", retriable=True, refreshes_metadata=True):
    """The client's view of the cluster is out of date; it refreshes its metadata and tries again."""


class AuthorizationError(BrokerError, name="AUTHORIZATION_FAILED", fatal=True):
    """The client may not do what it asked for."""


class AuthenticationError(BrokerError, name="AUTHENTICATION_FAILED", fatal=True):
    """The client could not prove who it is."""


class KafkaTimeoutError(KafkaError, TimeoutError, name="TIMEOUT", retriable=True):
    """The operation did not finish within its timeout; it may still take effect."""


KafkaError.__module__ = "kclient.errors"
