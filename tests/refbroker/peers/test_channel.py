"""The channel to another node: versions, timeouts, backoff, logins, and responses that it must refuse."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import pytest

from kclient.errors import (
    BrokerConnectionError,
    DisconnectedError,
    KafkaError,
    ProtocolError,
    RequestTimedOutError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.security.sasl import PasswordLogin
from kclient.security.secret import Secret
from refbroker.peers.channel import Channel, ChannelSettings
from refbroker.peers.network import Peer
from refbroker.peers.security import PeerSecurity
from refbroker.settings.listeners import SecurityProtocol
from tests.support.scripted_peers import Hangup, ScriptedPeers, simulated

PEER = Peer(3, "kafka-3", 9093)
PLAINTEXT = PeerSecurity("CONTROLLER", SecurityProtocol.PLAINTEXT)
LOGIN = PasswordLogin("PLAIN", "broker", Secret("hush"))
WITH_LOGIN = PeerSecurity("CONTROLLER", SecurityProtocol.SASL_PLAINTEXT, LOGIN)
VERSIONS = {63: (0, 2), 17: (0, 1), 36: (0, 2)}
BEAT = BrokerHeartbeatRequest(broker_id=1)


def channel_to(peers: ScriptedPeers, security: PeerSecurity = PLAINTEXT, **settings: Any) -> Channel:
    return Channel(PEER, security, peers, ChannelSettings("refbroker-1", **settings), random.Random(1))


def echo(peer: Peer, request: Any, version: int) -> Message:
    return BrokerHeartbeatResponse(is_caught_up=request.broker_id == 1)


def error_of(peers: ScriptedPeers, security: PeerSecurity = PLAINTEXT, **settings: Any) -> KafkaError:
    """Return the error of one request."""

    async def ask() -> None:
        channel = channel_to(peers, security, **settings)
        try:
            await channel.ask(BEAT)
        finally:
            channel.close()

    with pytest.raises(KafkaError) as caught:
        simulated(ask())
    return caught.value


def test_requests_in_flight_get_their_own_responses_over_one_connection() -> None:
    peers = ScriptedPeers(echo, VERSIONS)

    async def ask() -> list[bool]:
        channel = channel_to(peers)
        found = await asyncio.gather(*(channel.ask(BrokerHeartbeatRequest(broker_id=n)) for n in (1, 2, 1)))
        channel.close()
        return [each.is_caught_up for each in found]

    assert simulated(ask()) == [True, False, True]
    assert peers.connections == 1


def test_the_latest_common_version_is_used() -> None:
    seen = []

    def script(peer: Peer, request: Any, version: int) -> Message:
        seen.append(version)
        return BrokerHeartbeatResponse()

    async def ask() -> None:
        channel = channel_to(ScriptedPeers(script, {63: (0, 1)}))
        await channel.ask(BEAT)
        channel.close()

    simulated(ask())
    assert seen == [1]


def test_a_node_without_the_api_is_named_with_its_listener() -> None:
    error = error_of(ScriptedPeers(echo, {62: (0, 4)}))
    assert isinstance(error, UnsupportedVersionError)
    assert error.message == "the node accepts no version of BrokerHeartbeat, this one would use 0 to 2"
    assert error.broker == "node 3 at kafka-3:9093 (listener CONTROLLER, PLAINTEXT)"


def test_a_node_that_is_not_asked_for_versions_gets_the_latest() -> None:
    peers = ScriptedPeers(echo, None)

    async def ask() -> Any:
        channel = channel_to(peers, finds_versions=False)
        answer = await channel.ask(BEAT)
        channel.close()
        return answer

    assert simulated(ask()).is_caught_up
    assert len(peers.asked) == 1


def test_a_request_without_a_response_times_out_and_the_next_one_connects_again() -> None:
    peers = ScriptedPeers(lambda peer, request, version: None, VERSIONS)

    async def ask() -> Any:
        channel = channel_to(peers)
        with pytest.raises(RequestTimedOutError) as caught:
            await channel.ask(BEAT, timeout=2.0)
        assert caught.value.message == "no response to BrokerHeartbeat within 2 s"
        peers.script = echo
        answer = await channel.ask(BEAT)
        channel.close()
        return answer

    assert simulated(ask()).is_caught_up
    assert peers.connections == 2


def test_a_connection_that_is_never_made_times_out() -> None:
    peers = ScriptedPeers(echo, VERSIONS)
    peers.silent.add(9093)
    error = error_of(peers, request_timeout=3.0)
    assert isinstance(error, (BrokerConnectionError, RequestTimedOutError))
    assert "within 3 s" in error.message


def test_a_node_that_refuses_connections_is_asked_less_and_less_often() -> None:
    peers = ScriptedPeers(echo, VERSIONS)
    peers.unreachable.add(9093)

    async def ask() -> list[float]:
        loop = asyncio.get_running_loop()
        channel, times = channel_to(peers), []
        for _ in range(8):
            with pytest.raises(BrokerConnectionError):
                await channel.ask(BEAT)
            times.append(loop.time())
        peers.unreachable.clear()
        await channel.ask(BEAT)
        channel.close()
        return times

    times = simulated(ask())
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert 0.04 <= gaps[0] <= 0.06
    assert gaps[:4] == sorted(gaps[:4])
    assert max(gaps) <= 1.2


def test_a_lost_connection_fails_all_requests_in_flight() -> None:
    peers = ScriptedPeers(lambda peer, request, version: None, VERSIONS)

    async def ask() -> list[BaseException | Any]:
        channel = channel_to(peers)
        asking = [asyncio.create_task(channel.ask(BEAT)) for _ in range(3)]
        await peers.have_been_asked(3)
        peers.open[0].lose()
        found = await asyncio.gather(*asking, return_exceptions=True)
        channel.close()
        return found

    found = simulated(ask())
    assert [type(each) for each in found] == [DisconnectedError] * 3


@pytest.mark.parametrize(
    "answer",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"HTTP/1.1 400 Bad Request",
        b"\x00\x00\x00\x02\x00\x00",
        b"\x00\x00\x00\x04\x00\x00\x00\x63",
        b"\x00\x00\x00\x05\x00\x00\x00\x02\x00",
    ],
    ids=["huge", "negative", "http", "short", "other request", "cut off"],
)
def test_a_response_that_is_not_one_ends_the_connection(answer: bytes) -> None:
    error = error_of(ScriptedPeers(lambda peer, request, version: answer, VERSIONS))
    assert isinstance(error, ProtocolError)
    assert error.broker == "node 3 at kafka-3:9093 (listener CONTROLLER, PLAINTEXT)"


def test_a_closed_channel_connects_no_more() -> None:
    peers = ScriptedPeers(echo, VERSIONS)

    async def ask() -> None:
        channel = channel_to(peers)
        channel.close()
        await channel.ask(BEAT)

    with pytest.raises(DisconnectedError):
        simulated(ask())
    assert peers.connections == 0


# Logins


def login_script(lifetime_ms: int = 0, **refusal: Any) -> Any:
    def script(peer: Peer, request: Any, version: int) -> Message:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"], error_code=refusal.get("handshake", 0))
        if isinstance(request, SaslAuthenticateRequest):
            assert request.auth_bytes == b"\0broker\0hush"
            code = refusal.get("authenticate", 0)
            text = "Authentication failed: Invalid username or password" if code else None
            return SaslAuthenticateResponse(error_code=code, error_message=text, session_lifetime_ms=lifetime_ms)
        return echo(peer, request, version)

    return script


def test_the_node_logs_in_before_its_first_request() -> None:
    peers = ScriptedPeers(login_script(), VERSIONS)

    async def ask() -> None:
        channel = channel_to(peers, WITH_LOGIN)
        await channel.ask(BEAT)
        await channel.ask(BEAT)
        channel.close()

    simulated(ask())
    assert [type(request) for _, request in peers.asked] == [
        SaslHandshakeRequest,
        SaslAuthenticateRequest,
        BrokerHeartbeatRequest,
        BrokerHeartbeatRequest,
    ]


def test_a_refused_login_names_the_user_the_mechanism_and_the_listener_only() -> None:
    error = error_of(ScriptedPeers(login_script(authenticate=58), VERSIONS), WITH_LOGIN)
    assert isinstance(error, SaslAuthenticationError)
    assert "the user 'broker' could not log in with PLAIN: Authentication failed" in error.message
    assert error.broker == "node 3 at kafka-3:9093 (listener CONTROLLER, SASL_PLAINTEXT with PLAIN)"
    assert "hush" not in str(error)


def test_a_mechanism_that_the_listener_lacks_is_named_with_those_it_has() -> None:
    error = error_of(ScriptedPeers(login_script(handshake=33), VERSIONS), WITH_LOGIN)
    assert isinstance(error, UnsupportedSaslMechanismError)
    assert error.message == "the listener does not offer the SASL mechanism PLAIN; it offers PLAIN"


def test_a_session_that_ends_is_renewed_before_the_next_request() -> None:
    peers = ScriptedPeers(login_script(10_000), VERSIONS)

    async def ask() -> list[int]:
        channel, counts = channel_to(peers, WITH_LOGIN), []
        for wait in (0.0, 8.0, 2.0):
            await asyncio.sleep(wait)
            await channel.ask(BEAT)
            counts.append(peers.connections)
        channel.close()
        return counts

    assert simulated(ask()) == [1, 1, 2]


def test_a_node_that_hangs_up_during_the_login_fails_the_request() -> None:
    def script(peer: Peer, request: Any, version: int) -> Message:
        raise Hangup

    error = error_of(ScriptedPeers(script, VERSIONS), WITH_LOGIN)
    assert isinstance(error, DisconnectedError)
