"""The exception tree: one class per error code, readable messages, pickling."""

from __future__ import annotations

import pickle

import pytest

from kclient import errors
from tests.support.golden_data import golden_rows

SAMPLES = [
    errors.NotLeaderOrFollowerError(topic="orders", partition=3, broker="1 (localhost:9092)", api="Fetch"),
    errors.RequestTimedOutError(),
    errors.CorruptRecordError("bad checksum", topic="orders", partition=0, offset=42),
    errors.AdminError({"a": 1}, {"b": errors.TopicExistsError(topic="b")}),
    errors.DeliveryError(3, [errors.RecordTooLargeError()]),
    errors.RowsDeliveryError({5: errors.RecordTooLargeError(), 7: errors.RecordTooLargeError()}, 100),
    errors.BrokerConnectionError("broker.test", 9092, OSError(111, "Connection refused")),
    errors.DeserializationError("orders", 0, 5, part="key", key=b"k", value=None, reason=ValueError("not JSON")),
    errors.TransformError("orders", 0, 5, reason=ValueError("not JSON")),
    errors.NoOffsetForPartitionError(["orders-0"]),
    errors.LogTruncationError({"orders-0": 5}, {"orders-0": 9}),
    errors.error_from_code(999, topic="orders"),
]


def test_the_table_has_kafkas_codes_names_and_traits() -> None:
    facts = [row for row in golden_rows("error_codes") if row["code"] != 0]
    wanted = {f["code"]: (f["name"], f["retriable"], f["refreshesMetadata"]) for f in facts}
    have = {code: (e.name, e.retriable, e.refreshes_metadata) for code, e in errors.BrokerError.by_code.items()}
    assert have == wanted


def test_every_error_code_has_a_class_with_a_message() -> None:
    assert sorted(errors.BrokerError.by_code) == [-1, *range(1, 134)]
    for code, kind in errors.BrokerError.by_code.items():
        assert errors.error_for(code) is kind
        assert getattr(errors, kind.__name__) is kind
        assert len(str(kind())) > len(kind.name) + 20


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: error.name)
def test_an_error_survives_pickling(error: errors.KafkaError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.context() == error.context()


def test_what_is_kept_of_an_error_is_the_same_without_its_frames() -> None:
    with pytest.raises(errors.CorruptRecordError) as caught:
        raise errors.CorruptRecordError("broken", topic="t", partition=1, offset=5) from ValueError("checksum")
    error = caught.value
    error.retriable = False
    kept = error.without_frames()
    assert type(kept) is type(error)
    assert (str(kept), kept.context(), kept.retriable) == (str(error), error.context(), False)
    assert (kept.__traceback__, kept.__cause__, kept.__context__) == (None, None, None)


def test_the_text_names_code_cause_and_place() -> None:
    text = str(SAMPLES[0])
    assert text.startswith("NOT_LEADER_OR_FOLLOWER (6, retriable): ")
    assert text.endswith("[topic orders, partition 3, broker 1 (localhost:9092), api Fetch]")


def test_an_unknown_code_keeps_its_number() -> None:
    error = errors.error_from_code(999)
    assert isinstance(error, errors.UnknownServerError)
    assert error.code == 999
    assert "999" in str(error)


@pytest.mark.parametrize(
    ("code", "told", "message"),
    [
        (44, "too many partitions", "too many partitions"),
        (68, "The group is not empty.", "The group is not empty; stop them first."),
        (68, "The group still has members; stop them first", "The group still has members; stop them first"),
        (68, "", "The group still has members; stop them first."),
        (68, None, "The group still has members; stop them first."),
        (17, "Topic 'a.b' collides with existing topic: a_b", "Topic 'a.b' collides with existing topic: a_b"),
        (39, "Attempted to add 2 additional partition(s)", "Attempted to add 2 additional partition(s)"),
        (-1, "It broke.", "It broke; see the broker's log."),
        (29, "Not authorized to access topics: [t]", "Not authorized to access topics: [t]; ask for an ACL on it."),
    ],
)
def test_the_broker_says_what_happened_and_the_class_what_can_be_done(
    code: int, told: str | None, message: str
) -> None:
    with pytest.raises(errors.error_for(code)) as caught:
        errors.raise_for_code(code, told, topic="orders")
    assert caught.value.message == message
    assert caught.value.topic == "orders"


def test_what_can_be_done_reads_on_from_the_brokers_words() -> None:
    for kind in errors.BrokerError.by_code.values():
        advice = kind.documented().partition("; ")[2]
        assert not advice.startswith(("or ", "or,", "and ")), kind


def test_no_error_raises_nothing() -> None:
    errors.raise_for_code(0)


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.KafkaTimeoutError, TimeoutError),
        (errors.RequestTimedOutError, TimeoutError),
        (errors.DisconnectedError, ConnectionError),
        (errors.ProtocolError, ValueError),
        (errors.ConfigError, ValueError),
        (errors.ClosedError, RuntimeError),
    ],
)
def test_errors_are_pythons_own_kinds_too(kind: type[errors.KafkaError], builtin: type[Exception]) -> None:
    assert isinstance(kind("text"), builtin)
    assert "text" in str(kind("text"))
