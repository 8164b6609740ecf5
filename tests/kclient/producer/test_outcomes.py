"""The error of a record says whether a broker can have written it."""

from __future__ import annotations

import pytest

from kclient.errors import (
    BrokerConnectionError,
    ClosedError,
    ClusterAuthorizationError,
    DeliveryUnknownError,
    DisconnectedError,
    KafkaError,
    KafkaStorageError,
    KafkaTimeoutError,
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    RecordNotDeliveredError,
    RecordTooLargeError,
    RequestTimedOutError,
    TransactionAbortedError,
    UnknownServerError,
)
from kclient.producer.outcomes import may_be_written, record_error


@pytest.mark.parametrize(
    ("error", "written"),
    [
        (DisconnectedError("lost"), True),
        (KafkaTimeoutError("no response"), True),
        (RequestTimedOutError(), True),
        (NotEnoughReplicasAfterAppendError(), True),
        (UnknownServerError(), True),
        (KafkaStorageError(), True),
        (BrokerConnectionError("host", 9092, "refused"), False),
        (NotEnoughReplicasError(), False),
        (NotLeaderOrFollowerError(), True),
        (RecordTooLargeError(), False),
    ],
    ids=lambda value: value.name if isinstance(value, KafkaError) else "",
)
def test_attempt_that_a_broker_may_have_carried_out_is_known(error: KafkaError, written: bool) -> None:
    assert may_be_written(error) is written


@pytest.mark.parametrize(
    ("reason", "certain", "expected"),
    [
        (RecordTooLargeError("too large"), True, RecordTooLargeError),
        (RecordTooLargeError("too large"), False, DeliveryUnknownError),
        (ClosedError("closed"), True, RecordNotDeliveredError),
        (ClosedError("closed"), False, DeliveryUnknownError),
        (OSError("no codec"), True, RecordNotDeliveredError),
        (TransactionAbortedError(), True, TransactionAbortedError),
        (TransactionAbortedError(), False, TransactionAbortedError),
    ],
    ids=lambda value: str(value) if isinstance(value, bool) else getattr(value, "__name__", type(value).__name__),
)
def test_error_of_a_record_names_the_reason_and_whether_it_is_certain(
    reason: BaseException, certain: bool, expected: type[BaseException]
) -> None:
    error = record_error(reason, 2, "orders", 3, certain=certain)
    assert type(error) is expected
    if error is not reason:
        assert error.__cause__ is reason
        assert str(reason) in str(error)
        assert "[topic orders, partition 3]" in str(error)


def test_error_of_a_record_is_fatal_if_its_reason_is() -> None:
    error = record_error(ClusterAuthorizationError(), 1, "orders", 0, certain=False)
    assert isinstance(error, DeliveryUnknownError)
    assert error.fatal
    assert not error.retriable
