"""What is worded the same everywhere."""

from __future__ import annotations

import pytest

from kclient._text import address, partition_count
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
