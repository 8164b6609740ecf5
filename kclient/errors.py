"""All exceptions of the package: those for Kafka's error codes, and those that the client raises by itself.

All derive from `KafkaError` and say what happened, where, whether a retry can help and what can be done. Errors with a
number come from a broker (`BrokerError`; the table is in `_error_codes`, and `error_for` finds a class by number); the
ones below have none. Where Python has a built-in exception for the kind of failure, the error derives from it too, so
that `except TimeoutError` works.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kclient._error_base import AuthenticationError as AuthenticationError
from kclient._error_base import AuthorizationError as AuthorizationError
from kclient._error_base import BrokerError as BrokerError
from kclient._error_base import InvalidMetadataError as InvalidMetadataError
from kclient._error_base import KafkaError as KafkaError
from kclient._error_base import KafkaTimeoutError as KafkaTimeoutError
from kclient._error_codes import *  # noqa: F403 - the whole table is public here
from kclient._error_codes import UnknownServerError
from kclient._text import address


class ProtocolError(KafkaError, ValueError, name="PROTOCOL_ERROR"):
    """Bytes or a message do not follow Kafka's protocol."""


class ConfigError(KafkaError, ValueError, name="CONFIG_ERROR"):
    """An option does not exist, has an invalid value, or contradicts another one."""


class DisconnectedError(KafkaError, ConnectionError, name="DISCONNECTED", retriable=True, refreshes_metadata=True):
    """The connection to the broker was lost before its response arrived; it may have executed the request."""


class BrokerConnectionError(KafkaError, ConnectionError, name="CONNECTION_FAILED", retriable=True):
    """The client could not connect to a broker.

    Parameters:
        host: the host name or address of the broker.
        port: the port of the broker.
        reason: what the operating system or the peer said, as text or exception.
        advice: what the user can check; by default that the broker runs and its
            `advertised.listeners` can be reached from here.
    """

    def __init__(
        self,
        host: str,
        port: int,
        reason: object,
        *,
        advice: str = "check that a broker runs there, and that its advertised.listeners can be reached from here",
        **context: Any,
    ) -> None:
        cause = str(reason) or type(reason).__name__
        super().__init__(f"could not connect to {address(host, port)}: {cause}; {advice}", **context)
        self.host = host
        self.port = port
        self.reason = cause


class NotKafkaError(KafkaError, ConnectionError, name="NOT_KAFKA", fatal=True):
    """The peer responded with something other than Kafka's protocol, such as HTTP or TLS."""


class SslAuthenticationError(AuthenticationError, ConnectionError, name="SSL_AUTHENTICATION_FAILED"):
    """The TLS handshake failed: the broker's certificate is not trusted, or the broker refused the client's.

    The client keeps trying at intervals of reconnect_backoff_max_ms, so that it recovers once the certificates are
    right.
    """

    # The client found this, not a broker.
    code = None  # type: ignore[assignment]


class OAuthTokenError(KafkaError, name="NO_OAUTH_TOKEN", retriable=True):
    """The token provider failed, or its token was refused for the first time; the client keeps asking for another.

    If a broker refuses the next token too, SaslAuthenticationError is raised.
    """


class CredentialsUnavailableError(KafkaError, name="CREDENTIALS_UNAVAILABLE", retriable=True):
    """The credentials for a login could not be fetched for now; the client keeps trying.

    For example, no key distribution center of Kerberos responds, or a token provider does not return; the error names
    it. If a login is refused, SaslAuthenticationError is raised.
    """


class ForkError(KafkaError, RuntimeError, name="FORKED", fatal=True):
    """The client was made before a fork, and its network thread is not in the child; make one in each process."""


class IllegalStateError(KafkaError, RuntimeError, name="ILLEGAL_STATE"):
    """The call is not allowed in the current state of the client."""


class ClosedError(IllegalStateError, name="CLOSED", fatal=True):
    """The client was closed."""


class ConcurrentUseError(IllegalStateError, name="CONCURRENT_USE"):
    """Two threads used a consumer, or two tasks waited for its records, at once; give each a consumer of its own."""


class RecordNotAcceptedError(KafkaError, name="RECORD_NOT_ACCEPTED", retriable=True):
    """`send` could not accept the record within max_block_ms; it was not sent and will not arrive, so send it again."""


class BufferExhaustedError(RecordNotAcceptedError, name="BUFFER_EXHAUSTED"):
    """The producer's buffer_memory stayed full for max_block_ms; the record was not sent and will not arrive."""


class RecordNotDeliveredError(KafkaError, name="RECORD_NOT_DELIVERED"):
    """The producer gave a record up before a broker can have written it; sending it again makes no duplicate.

    The cause is attached. A record that a broker refused fails with the broker's own error instead, such as
    `RecordTooLargeError`.
    """


class DeliveryUnknownError(KafkaError, name="DELIVERY_UNKNOWN"):
    """The producer gave a record up after it was sent, and no broker said whether it was written.

    The record may be in the log, or may still arrive while the request is in flight. Sending it again may therefore
    write it twice, even with enable_idempotence, which recognizes only the producer's own retries. The cause is
    attached.
    """


class WakeupError(KafkaError, name="WAKEUP"):
    """`wakeup` was called and interrupted a blocking call of the consumer."""


class MaxPollIntervalExceededError(KafkaError, name="MAX_POLL_INTERVAL_EXCEEDED"):
    """The application did not ask for records for longer than max_poll_interval_ms, and the consumer left its group.

    Parameters:
        max_poll_interval_ms: the value of the option, in milliseconds.
    """

    def __init__(self, max_poll_interval_ms: int, **context: Any) -> None:
        super().__init__(
            f"the application did not ask for records for longer than max_poll_interval_ms ({max_poll_interval_ms} "
            "ms), so the consumer left its group, and records without a commit are read again. The next call joins "
            "again; take fewer records at once (max_poll_records), or raise max_poll_interval_ms",
            **context,
        )
        self.max_poll_interval_ms = max_poll_interval_ms


class CommitFailedError(KafkaError, name="COMMIT_FAILED"):
    """The offsets were not committed, because the consumer is no longer a member of its group's current generation.

    Other members may already read its partitions, from the offsets committed before. poll() joins again. If this
    happens after long work: take fewer records at once (max_poll_records), or raise max_poll_interval_ms.

    Parameters:
        reason: why the consumer is no longer a member.
    """

    def __init__(self, reason: object, **context: Any) -> None:
        super().__init__(
            f"the offsets were not committed, since {reason}; other members may already read the partitions, from the "
            "offsets "
            "committed before. poll() joins the group again; if the application takes long between two calls, take "
            "fewer records at once (max_poll_records) or raise max_poll_interval_ms",
            **context,
        )


class RetriableCommitFailedError(KafkaError, name="RETRIABLE_COMMIT_FAILED", retriable=True):
    """An asynchronous commit failed with a retriable error and was not retried, so that it cannot overtake a later one.

    The cause is attached; committing the current positions again may succeed.

    Parameters:
        reason: why it failed.
    """

    def __init__(self, reason: object, **context: Any) -> None:
        super().__init__(f"the offsets were not committed: {reason}; committing again may succeed", **context)


class DeliveryError(KafkaError, name="DELIVERY_FAILED"):
    """Records were not delivered, and the application did not look at their results.

    Parameters:
        count: how many records failed.
        errors: the first of their errors.
    """

    def __init__(self, count: int, errors: Sequence[BaseException], **context: Any) -> None:
        first = f"; the first error: {errors[0]}" if errors else ""
        super().__init__(f"{count} record{'' if count == 1 else 's'} could not be delivered{first}", **context)
        self.count = count
        self.errors = tuple(errors)


class RowsDeliveryError(KafkaError, name="ROWS_DELIVERY_FAILED"):
    """Rows of Arrow data were not delivered.

    Parameters:
        failures: their errors, by the rows' positions in the data.
        rows: how many rows there were.
    """

    def __init__(self, failures: Mapping[int, BaseException], rows: int, **context: Any) -> None:
        row, error = next(iter(failures.items()))
        super().__init__(
            f"{len(failures)} of {rows} rows could not be delivered; the first is row {row}: {error}", **context
        )
        self.failures = dict(failures)
        self.rows = rows


class TransactionAbortedError(RecordNotDeliveredError, name="TRANSACTION_ABORTED"):
    """The record was not sent, because its transaction was aborted."""


class TransformError(KafkaError, name="TRANSFORM_FAILED"):
    """A transform's function failed on a record, or its results could not be sent; the transaction was aborted.

    The cause is attached. The record is not committed: the next reader gets it again.

    Parameters:
        topic: the topic of the record.
        partition: the partition of the record.
        offset: the offset of the record.
        reason: what was raised.
    """

    def __init__(self, topic: str, partition: int, offset: int, *, reason: BaseException) -> None:
        super().__init__(
            f"the record could not be transformed: {type(reason).__name__}: {reason}; handle "
            "such records in the function or with on_error",
            topic=topic,
            partition=partition,
            offset=offset,
        )


class SerializationError(KafkaError, ValueError, name="SERIALIZATION_FAILED"):
    """A serializer failed, or did not return bytes; the record was not sent."""


class DeserializationError(KafkaError, ValueError, name="DESERIALIZATION_FAILED"):
    """A deserializer failed on a record; seek past its offset to continue.

    Parameters:
        topic: the topic of the record.
        partition: the partition of the record.
        offset: the offset of the record.
        part: what could not be deserialized, `key` or `value`.
        key: the key as the broker sent it.
        value: the value as the broker sent it.
        reason: the deserializer's exception.
    """

    topic: str
    partition: int
    offset: int

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        part: str = "value",
        key: bytes | None = None,
        value: bytes | None = None,
        reason: object = None,
    ) -> None:
        because = "" if reason is None else f": {reason}"
        text = f"the {part} of the record could not be deserialized{because}; seek past its offset to continue"
        super().__init__(text, topic=topic, partition=partition, offset=offset)
        self.part = part
        self.key = key
        self.value = value


class NoOffsetForPartitionError(KafkaError, name="NO_OFFSET_FOR_PARTITION"):
    """Partitions have no committed offset, and auto_offset_reset is "none"; seek to a position.

    Parameters:
        partitions: the partitions.
    """

    def __init__(self, partitions: Iterable[Any], **context: Any) -> None:
        self.partitions = tuple(partitions)
        names = ", ".join(str(partition) for partition in self.partitions)
        super().__init__(f'no offset to start from, and auto_offset_reset is "none", for {names}; seek', **context)


class LogTruncationError(KafkaError, name="LOG_TRUNCATED"):
    """The log was truncated below the consumer's position: records that it has read are gone from the cluster
    (KIP-320).

    Parameters:
        divergent_offsets: by partition, the first offset at which log and consumer differ, None if unknown; seek there.
        fetch_offsets: by partition, the position the consumer had.
    """

    def __init__(
        self,
        divergent_offsets: Mapping[Any, Any],
        fetch_offsets: Mapping[Any, int] | None = None,
        **context: Any,
    ) -> None:
        self.divergent_offsets = dict(divergent_offsets)
        self.fetch_offsets = dict(fetch_offsets or {})
        names = ", ".join(f"{partition} at {offset}" for partition, offset in self.divergent_offsets.items())
        super().__init__(f"the log was truncated below the consumer's position: {names}; seek to continue", **context)


class AdminError(KafkaError, name="ADMIN_FAILED"):
    """An admin call failed for some of its topics, partitions, groups or other keys.

    Parameters:
        results: the results of those that succeeded, by key.
        errors: the errors of the others, by key.
    """

    def __init__(self, results: Mapping[Any, Any], errors: Mapping[Any, BaseException], **context: Any) -> None:
        self.results = dict(results)
        self.errors = dict(errors)
        shown = "; ".join(f"{key}: {error}" for key, error in list(self.errors.items())[:3])
        more = f"; and {len(self.errors) - 3} more" if len(self.errors) > 3 else ""
        super().__init__(
            f"{len(self.errors)} of {len(self.errors) + len(self.results)} failed: {shown}{more}", **context
        )


def error_for(code: int) -> type[BrokerError]:
    """Return the class of an error code; `UnknownServerError` for a code that this version does not know."""
    return BrokerError.by_code.get(code, UnknownServerError)


def error_from_code(code: int, message: str | None = None, **context: Any) -> BrokerError:
    """Make the error of a code other than 0.

    Parameters:
        code: Kafka's error code.
        message: the broker's own message, if the response has one; the class adds what can be done.
        context: topic, partition, offset, broker, api (see `KafkaError`).
    """
    kind = BrokerError.by_code.get(code)
    if kind is not None:
        return kind.from_broker(message, **context)
    error = UnknownServerError(message or f"the broker answered with the unknown error code {code}", **context)
    error.code = code
    return error


def raise_for_code(code: int, message: str | None = None, **context: Any) -> None:
    """Raise the error of a code; 0 (NONE) raises nothing. Parameters as for `error_from_code`."""
    if code:
        raise error_from_code(code, message, **context)
