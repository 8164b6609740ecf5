"""Our bytes are those of the Java client, in both directions."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from kclient.protocol import all_messages, lookup
from tests.support.golden import SHARED, golden_message, random_message, sample

ALL = SHARED / "golden" / "messages.jsonl"


def check(line: dict[str, Any]) -> None:
    version, data = line["version"], bytes.fromhex(line["hex"])
    decoded = lookup(line["message"]).decode(data, version)
    given = golden_message(line)
    assert decoded == given
    assert given.encode(version) == data
    assert decoded.encode(version) == data
    assert b"".join(decoded.encode_parts(version)) == data
    assert lookup(line["message"]).decode(memoryview(bytearray(data)), version) == given


@pytest.mark.parametrize("line", sample(), ids=lambda line: f"{line['message']}-{line['version']}")
def test_a_message_has_the_bytes_of_the_java_client(line: dict[str, Any]) -> None:
    check(line)


def test_every_message_at_every_version_has_the_bytes_of_the_java_client() -> None:
    if not ALL.exists():
        pytest.skip(f"{ALL} is not there; the project's own sample was checked")
    lines = [json.loads(line) for line in ALL.read_text().splitlines()]
    for line in lines:
        check(line)
    # The file has none of these.
    without_bytes = {"FetchSnapshotResponse", "ProducerSnapshot", "ShareFetchResponse"}
    assert set(all_messages()) - {line["message"] for line in lines} <= without_bytes


def test_every_message_at_every_version_survives_the_round_trip(rng: random.Random) -> None:
    for name, message in all_messages().items():
        for version in range(message.min_version, message.max_version + 1):
            flexible = message.is_flexible(version)
            value = random_message(message, version, rng, flexible)
            data = value.encode(version)
            assert message.decode(data, version) == value, f"{name} v{version}"
            assert b"".join(value.encode_parts(version)) == data
