"""Throttle times: a connection on which the broker asks the client to wait (KIP-219)."""

from __future__ import annotations

import pytest

from kclient.net.throttling import throttle_seconds
from kclient.protocol import Message
from kclient.protocol.messages.api_versions import ApiVersionsResponse
from kclient.protocol.messages.fetch import FetchResponse
from kclient.protocol.messages.metadata import MetadataResponse
from kclient.protocol.messages.offset_delete import OffsetDeleteResponse
from tests.kclient.net.scripted import ScriptedEngine, cluster


@pytest.fixture
def scripted() -> ScriptedEngine:
    """An engine with a connection to broker 0, on which nothing is outstanding."""
    engine = ScriptedEngine()
    engine.start()
    engine.send(0)
    engine.connect()
    engine.channel.answer(cluster())
    engine.settle()
    engine.results.clear()
    return engine


def answered(scripted: ScriptedEngine, throttle_ms: int) -> None:
    scripted.channel.answer(cluster(throttle_time_ms=throttle_ms))
    scripted.settle()


def test_nothing_is_sent_until_the_throttle_time_has_passed(scripted: ScriptedEngine) -> None:
    scripted.send(0)
    answered(scripted, 5000)
    scripted.send(0)
    assert not scripted.nodes.ready(0, scripted.clock())
    scripted.advance(4.9)
    assert scripted.channel.unanswered == []
    scripted.advance(0.1)
    assert len(scripted.channel.unanswered) == 1
    assert scripted.engine.metrics.snapshot()["throttle_time_max{node=0}"] == 5000


def test_requests_that_are_in_flight_are_answered_meanwhile(scripted: ScriptedEngine) -> None:
    scripted.send(0)
    scripted.send(0)
    answered(scripted, 5000)
    answered(scripted, 1000)
    assert len(scripted.results) == 2
    scripted.send(0)
    scripted.advance(4.9)
    assert scripted.channel.unanswered == []
    scripted.advance(0.1)
    assert len(scripted.channel.unanswered) == 1


def test_a_request_that_cannot_wait_so_long_times_out(scripted: ScriptedEngine) -> None:
    scripted.send(0)
    answered(scripted, 60_000)
    scripted.send(0, timeout=10.0)
    scripted.advance(10)
    assert len(scripted.results) == 2
    assert "within 10 s" in str(scripted.results[1])


@pytest.mark.parametrize(
    ("response", "version", "seconds"),
    [
        (FetchResponse(throttle_time_ms=1500), 8, 1.5),
        (FetchResponse(throttle_time_ms=1500), 7, 0.0),
        (FetchResponse(), 8, 0.0),
        (MetadataResponse(throttle_time_ms=1), 6, 0.001),
        (MetadataResponse(throttle_time_ms=1), 5, 0.0),
        (ApiVersionsResponse(throttle_time_ms=100), 1, 0.0),
        (OffsetDeleteResponse(throttle_time_ms=100), 0, 0.1),
    ],
)
def test_old_versions_are_answered_after_the_time_has_passed(response: Message, version: int, seconds: float) -> None:
    assert throttle_seconds(response, version) == seconds
