"""What happens to a record before it is appended: interceptors, serializers, checks."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from kclient.config import ProducerConfig
from kclient.errors import SerializationError
from kclient.producer.callbacks import Deliveries
from kclient.producer.record import ProducerRecord
from kclient.producer.record_serializer import RecordSerializer
from kclient.serialization import SerializationContext
from kclient.types import RecordMetadata


class Immediate:
    """Runs callbacks at once."""

    bridge = None
    busy = False

    def dispatch(self, jobs: list[Any]) -> None:
        for future, callback in jobs:
            callback(future)

    def barrier(self, function: Any) -> None:
        function()

    def close(self, timeout: float) -> None:
        return None


def preparation(**options: Any) -> RecordSerializer:
    config = ProducerConfig.from_options(options)
    return RecordSerializer(config, Deliveries(Immediate(), lambda: None, lambda: None))


def test_bytes_like_values_become_bytes() -> None:
    record = preparation().prepare("t", bytearray(b"v"), memoryview(b"k"), [("h", bytearray(b"1"))], 1, 2)
    assert (record.value, record.key, record.headers) == (b"v", b"k", (("h", b"1"),))
    assert (record.partition, record.timestamp) == (1, 2)
    assert record.size >= 4


@pytest.mark.parametrize(
    ("part", "value", "error"),
    [
        ("value", "text", TypeError),
        ("value", 5, TypeError),
        pytest.param("key", object(), TypeError, id="key-object-TypeError"),
        ("headers", [("h", "text")], TypeError),
        ("headers", [("h",)], TypeError),
        ("headers", [(b"h", b"v")], TypeError),
        ("partition", 1.5, TypeError),
        ("partition", -1, ValueError),
        ("timestamp", -1, ValueError),
        ("topic", None, TypeError),
    ],
)
def test_an_invalid_part_of_a_record_is_an_error(part: str, value: Any, error: type[Exception]) -> None:
    arguments: dict[str, Any] = {
        "topic": "t",
        "value": b"v",
        "key": None,
        "headers": (),
        "partition": None,
        "timestamp": None,
    }
    with pytest.raises(error):
        preparation().prepare(**{**arguments, part: value})


def test_headers_of_a_mapping_learn_how_to_become_pairs() -> None:
    headers = {"ab": b"1"}
    with pytest.raises(TypeError, match=r"items\(\)"):
        preparation().prepare("t", b"v", None, headers, None, None)  # type: ignore[arg-type]
    assert preparation().prepare("t", b"v", None, headers.items(), None, None).headers == (("ab", b"1"),)


def test_serializers_are_used_and_their_failures_named() -> None:
    prepared = preparation(value_serializer=lambda value: str(value).encode(), key_serializer=lambda key: key[::-1])
    record = prepared.prepare("t", 5, b"abc", (), None, None)
    assert (record.value, record.key) == (b"5", b"cba")
    with pytest.raises(SerializationError, match="key failed"):
        prepared.prepare("t", 5, None, (), None, None)
    with pytest.raises(SerializationError, match="returned int, not bytes"):
        preparation(value_serializer=len).prepare("t", b"five!", None, (), None, None)


def test_interceptors_change_records_in_turn_and_learn_of_failures() -> None:
    told: list[Any] = []

    class Upper:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            record.value = record.value.upper()
            return record

        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            told.append((metadata, error, headers))
            raise RuntimeError("an interceptor that fails is only logged")

    class Elsewhere(Upper):
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord("elsewhere", record.value + b"!")

    prepared = preparation(interceptors=[Upper(), Elsewhere()], value_serializer=bytes)
    record = prepared.prepare("t", b"v", None, (), None, None)
    assert (record.topic, record.value) == ("elsewhere", b"V!")
    assert not prepared.is_plain
    failing = preparation(interceptors=[Upper()], value_serializer=int)
    with pytest.raises(SerializationError):
        failing.prepare("t", b"v", None, [("h", b"1")], 2, None)
    metadata, error, headers = told[0]
    assert (metadata, headers) == (RecordMetadata("t", 2, -1, -1), (("h", b"1"),))
    assert isinstance(error, SerializationError)


class OnSend:
    """An interceptor that changes nothing."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record


def test_an_interceptor_may_omit_one_of_its_methods(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Any] = []

    class Changes:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return ProducerRecord("elsewhere", record.value)

    class Counts:
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            told.append((metadata, error, headers))

    record = preparation(interceptors=[Changes(), Counts()]).prepare("t", b"v", None, (), None, None)
    assert record.topic == "elsewhere"
    assert record.on_delivery is not None
    metadata, error = RecordMetadata("elsewhere", 1, -1, -1), KeyError()
    record.on_delivery(metadata, error)
    assert told == [(metadata, error, ())]
    assert caplog.text == ""


@pytest.mark.parametrize("interceptors", [[], [OnSend()]], ids=["no interceptor", "an interceptor"])
def test_what_cannot_be_called_is_no_delivery_callback(interceptors: list[Any]) -> None:
    with pytest.raises(TypeError, match="on_delivery must be a function, not 5"):
        preparation(interceptors=interceptors).prepare("t", b"v", None, (), None, None, 5)  # type: ignore[arg-type]


def test_a_coroutine_function_is_refused_as_a_delivery_callback() -> None:
    async def on_delivery(metadata: Any, error: Any) -> None: ...

    callbacks: list[Any] = [on_delivery, functools.partial(on_delivery)]
    for callback in callbacks:
        with pytest.raises(TypeError, match=r"^on_delivery must be a plain function, not the coroutine function "):
            preparation().prepare("t", b"v", None, (), None, None, callback)


def test_every_failure_of_a_record_that_interceptors_saw_is_reported_once() -> None:
    told: list[Any] = []

    class Counts:
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            told.append((metadata.topic, metadata.partition, type(error), headers))

    prepared = preparation(interceptors=[Counts()])
    with pytest.raises(TypeError, match="a header is a pair"):
        prepared.prepare("t", b"v", None, [b"h"], None, None)  # type: ignore[list-item]
    with pytest.raises(TypeError, match="a value must be bytes-like"):
        prepared.prepare("t", "text", None, [("h", b"1")], 3, None)
    with pytest.raises(ValueError, match="timestamp must be 0 or more"):
        prepared.prepare("t", b"v", None, (), None, -1)
    assert told == [("t", -1, TypeError, ()), ("t", 3, TypeError, (("h", b"1"),)), ("t", -1, ValueError, ())]


def test_interceptors_receive_the_headers_that_serializers_added() -> None:
    told: list[Any] = []
    own: list[Any] = []

    class Counts:
        def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
            told.append(headers)

    def serialize(value: Any, context: SerializationContext) -> bytes:
        context.headers.append(("schema", b"1"))
        return bytes(value)

    prepared = preparation(interceptors=[Counts()], value_serializer=serialize)
    record = prepared.prepare("t", b"v", None, [("h", b"1")], None, None, lambda *outcome: own.append(outcome))
    assert record.on_delivery is not None
    delivered, failed, error = RecordMetadata("t", 0, 5, 6), RecordMetadata("t", 0, -1, -1), KeyError()
    record.on_delivery(delivered, None)
    record.on_delivery(failed, error)
    assert told == [(("h", b"1"), ("schema", b"1"))] * 2
    assert own == [(delivered, None), (None, error)]


@pytest.mark.parametrize(("returned", "kind"), [(None, "None"), (b"v", "a bytes")], ids=["nothing", "the value"])
def test_an_interceptor_that_returns_no_record_fails_the_send(returned: Any, kind: str) -> None:
    class Forgetful:
        def on_send(self, record: ProducerRecord) -> Any:
            return returned

    with pytest.raises(TypeError, match=rf"^on_send of <.*Forgetful.*> returned {kind}; it must return the Producer"):
        preparation(interceptors=[Forgetful()]).prepare("t", b"v", None, (), None, None)


def test_an_async_interceptor_fails_the_send() -> None:
    class Async:
        async def on_send(self, record: ProducerRecord) -> ProducerRecord:
            return record

    with pytest.raises(TypeError, match=r"^on_send of <.*Async.*> returned a coroutine; it must return"):
        preparation(interceptors=[Async()]).prepare("t", b"v", None, (), None, None)


def test_without_anything_of_the_user_s_it_is_plain() -> None:
    assert preparation().is_plain
    assert preparation().prepare("t", b"v", None, (), None, None).on_delivery is None
