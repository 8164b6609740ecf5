"""Our bytes are those of the Java client, in both directions."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kclient.protocol import all_messages, lookup
from tests.support.golden import golden_message, random_message
from tests.support.golden_data import golden_rows

GOLDEN: dict[str, list[dict[str, Any]]] = {}
for row in golden_rows("messages"):
    GOLDEN.setdefault(row["message"], []).append(row)


def check(line: dict[str, Any]) -> None:
    version, data = line["version"], bytes.fromhex(line["hex"])
    decoded = lookup(line["message"]).decode(data, version)
    given = golden_message(line)
    assert decoded == given
    assert given.encode(version) == data
    assert decoded.encode(version) == data
    assert b"".join(decoded.encode_parts(version)) == data
    assert lookup(line["message"]).decode(memoryview(bytearray(data)), version) == given


@pytest.mark.parametrize("name", GOLDEN)
def test_a_message_has_the_bytes_of_the_java_client_at_every_version(name: str) -> None:
    for line in GOLDEN[name]:
        check(line)


def test_every_message_has_bytes_of_the_java_client() -> None:
    without_bytes = {"FetchSnapshotResponse", "ProducerSnapshot", "ShareFetchResponse"}
    assert set(all_messages()) - set(GOLDEN) == without_bytes


def test_every_message_at_every_version_survives_the_round_trip(rng: random.Random) -> None:
    for name, message in all_messages().items():
        for version in range(message.min_version, message.max_version + 1):
            flexible = message.is_flexible(version)
            value = random_message(message, version, rng, flexible)
            data = value.encode(version)
            assert message.decode(data, version) == value, f"{name} v{version}"
            assert b"".join(value.encode_parts(version)) == data
