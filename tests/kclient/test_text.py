"""What is worded the same everywhere."""

from __future__ import annotations

from uuid import UUID

import pytest

from kclient._text import address, id_from_text, id_text, partition_count
from kclient.errors import BrokerConnectionError
from kclient.types import Node


@pytest.mark.parametrize(
    ("host", "shown"), [("::1", "[::1]:19555"), ("127.0.0.1", "127.0.0.1:19555"), ("broker.test", "broker.test:19555")]
)
def test_an_address_can_be_pasted_into_bootstrap_servers(host: str, shown: str) -> None:
    assert address(host, 19555) == shown
    assert str(BrokerConnectionError(host, 19555, "refused")).startswith(f"could not connect to {shown}: refused")
    assert str(Node(1, host, 19555)) == f"broker 1 at {shown}"


def test_one_partition_is_not_several() -> None:
    assert partition_count(1) == "the topic has 1 partition, numbered from 0"
    assert partition_count(3) == "the topic has 3 partitions, numbered from 0"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "AAAAAAAAAAAAAAAAAAAAAA"), (1, "AAAAAAAAAAAAAAAAAAAAAQ"), (-1 % 2**128, "_____________________w")],
)
def test_an_id_is_written_as_kafka_writes_it(number: int, text: str) -> None:
    assert id_text(UUID(int=number)) == text
    assert id_from_text(text) == UUID(int=number)


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAA!AAAAAAAAAA", "Ä" * 22])
def test_what_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id of 22 characters"):
        id_from_text(text)
