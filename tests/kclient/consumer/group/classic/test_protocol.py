"""The bytes of the consumer protocol: those of the Java client, made by its ConsumerProtocol of 4.3.1."""

from __future__ import annotations

import pytest

from kclient.consumer.group.classic.protocol import (
    GroupSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kclient.errors import ProtocolError
from kclient.types import TopicPartition

OWNED = [TopicPartition("orders", 2), TopicPartition("bills", 0), TopicPartition("orders", 0)]
TOPICS = "000000" + "02000562696c6c7300066f7264657273"
OWNED_HEX = "00000002000562696c6c73000000010000000000066f7264657273000000020000000000000002"
BY_VERSION = {
    0: f"0000{TOPICS}00000003010203",
    1: f"0001{TOPICS}00000003010203{OWNED_HEX}",
    2: f"0002{TOPICS}00000003010203{OWNED_HEX}00000007",
    3: f"0003{TOPICS}00000003010203{OWNED_HEX}0000000700067261636b2d61",
}
ASSIGNED = "0000000200066f7264657273000000020000000200000000000562696c6c730000000100000000"


def test_subscription_is_written_as_java_writes_it() -> None:
    full = GroupSubscription(["orders", "bills"], OWNED, 7, "rack-a", bytes([1, 2, 3]))
    assert encode_subscription(full).hex() == BY_VERSION[3]
    assert encode_subscription(GroupSubscription(["t"])).hex() == "000300000001000174ffffffff00000000ffffffffffff"
    assert encode_subscription(GroupSubscription([])).hex() == "000300000000ffffffff00000000ffffffffffff"


@pytest.mark.parametrize("version", BY_VERSION)
def test_subscription_of_every_version_is_read(version: int) -> None:
    told = decode_subscription(bytes.fromhex(BY_VERSION[version]))
    assert list(told.topics) == ["bills", "orders"]
    assert told.user_data == bytes([1, 2, 3])
    assert list(told.owned) == ([OWNED[1], OWNED[2], OWNED[0]] if version >= 1 else [])
    assert told.generation == (7 if version >= 2 else -1)
    assert told.rack == ("rack-a" if version >= 3 else None)


def test_newer_version_is_read_as_the_newest_that_is_known() -> None:
    newer = "0009" + BY_VERSION[3][4:] + "ffff"
    assert decode_subscription(bytes.fromhex(newer)).rack == "rack-a"
    assert decode_assignment(bytes.fromhex("0009" + ASSIGNED + "ffffffff" + "00")) == [OWNED[0], OWNED[2], OWNED[1]]


def test_assignment_is_written_as_java_writes_it_and_read_in_its_order() -> None:
    assert encode_assignment(OWNED).hex() == f"0003{ASSIGNED}ffffffff"
    assert encode_assignment(OWNED, b"\x09").hex() == f"0003{ASSIGNED}0000000109"
    assert encode_assignment([]).hex() == "000300000000ffffffff"
    for version in range(4):
        data = bytes.fromhex(f"{version:04x}{ASSIGNED}0000000109")
        assert decode_assignment(data) == [OWNED[0], OWNED[2], OWNED[1]]


@pytest.mark.parametrize("data", ["", "00", "ffff00000000", "000300000005", "00037fffffff", "0003000000010005"])
def test_damaged_bytes_are_an_error(data: str) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(bytes.fromhex(data))
    with pytest.raises(ProtocolError):
        decode_assignment(bytes.fromhex(data))
