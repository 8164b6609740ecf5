"""Other Python clients and kclient read what each other wrote, through the broker under test, in every codec."""

from __future__ import annotations

import pytest

from tests.interop.clients import Message, client, pairs
from tests.interop.conftest import Target

# Warnings about unclosed resources and deprecated calls of other clients are not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

START_MS = 1_700_000_000_000
# kafka-python and aiokafka refuse a record without key and value, and a null header value: those have no place here.
MESSAGES = [
    Message(
        key=None if number % 5 == 0 else b"key-%d" % (number % 7),
        value=None if number % 11 == 10 and number % 5 else b"value-%d " % number * (number % 13 + 1),
        headers=(("number", b"%d" % number), ("number", b"twice")) if number % 3 == 0 else (),
        timestamp=START_MS + number,
    )
    for number in range(300)
]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(("writer", "reader"), pairs())
def test_reader_sees_what_writer_sent(target: Target, topic: str, writer: str, reader: str, codec: str) -> None:
    client(writer).produce(target.bootstrap_servers, topic, MESSAGES, codec)
    assert client(reader).consume(target.bootstrap_servers, topic, len(MESSAGES)) == MESSAGES


@pytest.mark.parametrize("reader", ["confluent", "aiokafka"])
def test_a_header_without_value_stays_one(target: Target, topic: str, reader: str) -> None:
    sent = [Message(b"k", b"v", (("empty", b""), ("null", None)), START_MS)]
    client("kclient").produce(target.bootstrap_servers, topic, sent, "none")
    assert client(reader).consume(target.bootstrap_servers, topic, 1) == sent
