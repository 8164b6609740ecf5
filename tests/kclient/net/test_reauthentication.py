"""Sessions of SASL that end: a connection authenticates again in time, between requests (KIP-368)."""

from __future__ import annotations

from typing import Any

import pytest

from kclient.config import AdminConfig
from kclient.errors import DisconnectedError, KafkaTimeoutError, SaslAuthenticationError
from kclient.net.connection_states import State
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kclient.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.kclient.net.scripted import ScriptedChannel, ScriptedEngine, cluster

LIFETIME = 60.0
HANDSHAKE, AUTHENTICATE, METADATA = "SaslHandshakeRequest", "SaslAuthenticateRequest", "MetadataRequest"


class SecuredEngine(ScriptedEngine):
    """An engine that logs in with PLAIN, at a broker whose sessions last for `LIFETIME`."""

    def __init__(self) -> None:
        super().__init__(
            AdminConfig.from_options(
                {
                    "bootstrap_servers": "boot:9092",
                    "security_protocol": "SASL_PLAINTEXT",
                    "sasl_mechanism": "PLAIN",
                    "sasl_username": "alice",
                    "sasl_password": "wonder",
                    "metadata_max_age_ms": 10_000_000,
                    "connections_max_idle_ms": 10_000_000,
                }
            )
        )

    def log_in(self, channel: ScriptedChannel, **refusal: Any) -> None:
        assert channel.names() == [HANDSHAKE]
        channel.answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
        self.settle()
        assert channel.names() == [AUTHENTICATE]
        answer = {"error_message": None, "session_lifetime_ms": int(LIFETIME * 1000)} | refusal
        channel.answer(SaslAuthenticateResponse(**answer))
        self.settle()

    def connect(self, ranges: dict[int, tuple[int, int]] | None = None) -> ScriptedChannel:
        channel = self.channel
        channel.accept()
        self.settle()
        channel.answer_versions(ranges)
        self.settle()
        self.log_in(channel)
        return channel


@pytest.fixture
def scripted() -> SecuredEngine:
    """An engine with a connection to broker 0, on which nothing is outstanding."""
    engine = SecuredEngine()
    engine.start()
    engine.send(0)
    engine.connect()
    engine.channel.answer(cluster())
    engine.settle()
    engine.results.clear()
    return engine


def state(scripted: SecuredEngine) -> State:
    return scripted.channel.handler.state  # type: ignore[attr-defined,no-any-return]


def test_an_idle_connection_authenticates_again_before_the_session_ends(scripted: SecuredEngine) -> None:
    for _ in range(3):
        scripted.advance(0.84 * LIFETIME)
        assert (scripted.channel.names(), state(scripted)) == ([], State.READY)
        scripted.advance(0.12 * LIFETIME)
        assert state(scripted) is State.REAUTHENTICATING
        scripted.log_in(scripted.channel)
        assert state(scripted) is State.READY
    assert len(scripted.network.channels) == 2


def test_outstanding_responses_come_first_and_new_requests_wait(scripted: SecuredEngine) -> None:
    scripted.advance(0.8 * LIFETIME)
    scripted.send(0)
    scripted.advance(0.16 * LIFETIME)
    scripted.send(0)
    assert (scripted.channel.names(), state(scripted)) == ([METADATA], State.DRAINING)
    scripted.channel.answer(cluster(controller_id=1))
    scripted.settle()
    scripted.log_in(scripted.channel)
    assert scripted.channel.names() == [METADATA]
    scripted.channel.answer(cluster(controller_id=2))
    scripted.settle()
    assert [answer.controller_id for answer in scripted.results] == [1, 2]


def test_a_refusal_reaches_the_waiting_request(scripted: SecuredEngine) -> None:
    scripted.advance(0.96 * LIFETIME)
    scripted.send(0)
    scripted.log_in(scripted.channel, error_code=58, error_message="Invalid password")
    assert scripted.channel.closed
    (error,) = scripted.results
    assert isinstance(error, SaslAuthenticationError)
    assert "could not log in with PLAIN: Invalid password" in str(error)


def test_a_throttle_time_comes_first(scripted: SecuredEngine) -> None:
    scripted.advance(0.8 * LIFETIME)
    scripted.send(0)
    scripted.channel.answer(cluster(throttle_time_ms=20_000))
    scripted.settle()
    scripted.send(0)
    # The broker reads nothing until then, so that a login would time out.
    scripted.advance(19.9)
    assert (scripted.channel.names(), state(scripted)) == ([], State.DRAINING)
    scripted.advance(0.1)
    scripted.log_in(scripted.channel)
    assert (scripted.channel.names(), state(scripted)) == ([METADATA], State.READY)


@pytest.mark.parametrize("answers", [False, True], ids=["new request", "waiting request"])
def test_no_request_is_sent_in_a_session_that_has_ended(scripted: SecuredEngine, answers: bool) -> None:
    scripted.advance(0.8 * LIFETIME)
    if answers:
        for _ in range(2 * scripted.nodes.max_in_flight):
            scripted.send(0)
    sent = len(scripted.channel.requests)
    # As a thread that was not run for long: the next turn has something to do before it looks at the time.
    scripted.clock.now += 0.2 * LIFETIME
    if answers:
        scripted.channel.answer(cluster())
    else:
        scripted.engine.submit(lambda: scripted.nodes.send(scripted.request(0), scripted.clock()))
    scripted.engine.run_turn(0.0)
    assert [message.message_name for _, message in scripted.channel.requests[sent:]] == [HANDSHAKE] * (not answers)
    assert state(scripted) is (State.DRAINING if answers else State.REAUTHENTICATING)


def test_a_broker_that_wants_no_login_so_soon_is_connected_to_again(scripted: SecuredEngine) -> None:
    scripted.advance(0.96 * LIFETIME)
    scripted.send(0)
    scripted.channel.answer(SaslHandshakeResponse(error_code=34))
    scripted.settle()
    assert scripted.channel.closed
    (error,) = scripted.results
    assert isinstance(error, DisconnectedError)
    assert "does not let this client log in again so soon" in str(error)


def test_a_broker_that_does_not_respond_is_given_up(scripted: SecuredEngine) -> None:
    scripted.advance(0.96 * LIFETIME)
    assert state(scripted) is State.REAUTHENTICATING
    scripted.advance(60)
    assert scripted.network.channels[1].closed


def test_a_request_in_flight_still_has_its_own_timeout(scripted: SecuredEngine) -> None:
    scripted.advance(0.8 * LIFETIME)
    scripted.send(0, timeout=30.0)
    scripted.advance(0.16 * LIFETIME)
    assert state(scripted) is State.DRAINING
    scripted.advance(30)
    (error,) = scripted.results
    assert isinstance(error, KafkaTimeoutError)
