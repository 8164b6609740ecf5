"""What is left of an error when it leaves the source, and in whose words it is."""

from __future__ import annotations

import traceback

import pytest

from kclient.errors import ConfigError, KafkaTimeoutError
from kclient.spark.errors import OptionError, SourceError, as_in_spark, source_errors


def fails(error: Exception) -> None:
    try:
        raise ValueError("the cause")
    except ValueError as cause:
        raise error from cause


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_an_error_of_the_source_shows_no_frame_of_it() -> None:
    def method() -> None:
        with source_errors("k:1"):
            fails(SourceError("no such column"))

    with pytest.raises(SourceError) as caught:
        method()
    assert frames(caught.value)[1:] == []
    assert "the cause" not in "".join(traceback.format_exception(caught.value))


def test_an_error_of_the_client_shows_where_it_left_and_no_more() -> None:
    with pytest.raises(SourceError, match=r"^Kafka on k:1 did not answer: too slow$") as caught, source_errors("k:1"):
        fails(KafkaTimeoutError("too slow"))
    assert frames(caught.value)[1:] == ["__exit__"]
    assert "the cause" not in "".join(traceback.format_exception(caught.value))
    with pytest.raises(OptionError, match=r"^no group$"), source_errors("k:1"):
        fails(ConfigError("no group"))


@pytest.mark.parametrize(
    ("said", "in_spark"),
    [
        ("more than max_request_size (5)", "more than kafka.max.request.size (5)"),
        ("raise max_block_ms.", "raise kafka.max.block.ms."),
        ("enable_auto_commit=False", "kafka.enable.auto.commit=False"),
        ("max_in_flight_requests_per_connection", "kafka.max.in.flight.requests.per.connection"),
        ("within delivery_timeout_ms (7): late", "within kafka.delivery.timeout.ms (7): late"),
        ("[topic group_id, partition 0]", "[topic group_id, partition 0]"),
        ("there is no topic 'client_id'", "there is no topic 'client_id'"),
        ("my_group_id and group_id-2 and a.group_id", "my_group_id and group_id-2 and a.group_id"),
        ("the broker sent acks", "the broker sent acks"),
    ],
)
def test_options_of_the_client_are_called_as_they_are_in_spark(said: str, in_spark: str) -> None:
    assert as_in_spark(said) == in_spark
