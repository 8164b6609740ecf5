"""The active controller when the disk fails while it stores a change."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.errors import KafkaStorageError
from kclient.protocol.messages.records.metadata_log import ConfigRecord
from refbroker.controller import active
from refbroker.metadata.image import TOPIC_RESOURCE
from tests.support.broker_harness import Harness, turns

TOO_MANY_FILES = KafkaStorageError("too many open files")


def change(*values: str) -> list[Any]:
    return [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=f"x.{value}", value=value)
        for value in values
    ]


@pytest.mark.parametrize("stored", [0, 1])
async def test_a_change_that_is_stored_in_part_stops_the_broker(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, stored: int
) -> None:
    monkeypatch.setattr(active, "MOST_RECORDS", 3)
    replica, controller = harness.broker.metadata, harness.broker.controller
    append, begun = replica.append, replica.end_offset

    def failing(*args: Any) -> None:
        if replica.end_offset >= begun + 3 * stored:
            raise TOO_MANY_FILES
        append(*args)

    with monkeypatch.context() as patch:
        patch.setattr(replica, "append", failing)
        with pytest.raises(KafkaStorageError, match="too many"):
            controller.append(change("a", "b", "c", "d"))
    await turns()
    assert harness.broker.failed.done() == bool(stored)
    if stored:
        # The next change would be taken for a part of the transaction.
        with pytest.raises(KafkaStorageError, match="closed"):
            controller.append(change("e"))
    else:
        controller.append(change("e"))
        assert harness.broker.image.config(TOPIC_RESOURCE, "t") == {"x.e": "e"}


async def test_a_change_that_is_not_flushed_stops_the_broker(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> None:
        raise TOO_MANY_FILES

    monkeypatch.setattr(harness.broker.metadata, "flush", failing)
    with pytest.raises(KafkaStorageError, match="too many"):
        harness.broker.controller.append(change("a"))
    await turns()
    assert harness.broker.failed.done()
