"""Requests to the active controller: who is asked, what is repeated, and what is forwarded for clients."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kclient.errors import (
    ConfigError,
    RequestTimedOutError,
    UnknownServerError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.frames import encode_request, encode_response
from kclient.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kclient.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kclient.protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from refbroker.config import BrokerConfig
from refbroker.peers.channel import ChannelSettings
from refbroker.peers.controller_channel import ControllerChannel, PeerNetwork
from refbroker.peers.forwarding import Forwarder
from refbroker.peers.network import Peer
from refbroker.peers.quorum import ControllerQuorum, quorum_addresses
from refbroker.peers.security import PeerSecurity
from refbroker.security.principals import Principal
from refbroker.settings.listeners import SecurityProtocol
from tests.support.scripted_peers import Hangup, Later, Script, ScriptedPeers, simulated

VOTERS = [Peer(number, "localhost", 9000 + number) for number in (1, 2, 3)]
BEAT = BrokerHeartbeatRequest(broker_id=7)
NOT_CONTROLLER = BrokerHeartbeatResponse(error_code=41)
VERSIONS = {58: (0, 0), 63: (0, 2)}


def channel_over(peers: ScriptedPeers, quorum: ControllerQuorum, deadline: float = 30.0) -> ControllerChannel:
    security = PeerSecurity("CONTROLLER", SecurityProtocol.PLAINTEXT)
    network = PeerNetwork(security, peers, ChannelSettings("refbroker-7", request_timeout=2.0), random.Random(1))
    return ControllerChannel(quorum, network, deadline, "heartbeats")


def ask(peers: ScriptedPeers, quorum: ControllerQuorum, deadline: float = 30.0) -> Any:
    async def main() -> Any:
        channel = channel_over(peers, quorum, deadline)
        try:
            return await channel.ask(BEAT)
        finally:
            channel.close()

    return simulated(main())


def active(node: int) -> Script:
    def script(peer: Peer, request: Any, version: int) -> Message:
        return BrokerHeartbeatResponse(is_caught_up=True) if peer.port == 9000 + node else NOT_CONTROLLER

    return script


def test_controllers_are_asked_in_turn_until_one_is_active() -> None:
    peers = ScriptedPeers(active(3), VERSIONS)
    assert ask(peers, ControllerQuorum(VOTERS)).is_caught_up
    assert [peer.node_id for peer, _ in peers.asked] == [1, 2, 3]


def test_the_known_leader_is_asked_first() -> None:
    peers, quorum = ScriptedPeers(active(2), VERSIONS), ControllerQuorum(VOTERS)
    quorum.learn(2, 5)
    assert ask(peers, quorum).is_caught_up
    assert [peer.node_id for peer, _ in peers.asked] == [2]


@pytest.mark.parametrize("failure", ["refused", "hangup", "timeout"])
def test_a_request_is_repeated_at_the_next_leader(failure: str) -> None:
    def script(peer: Peer, request: Any, version: int) -> Message | bytes | Later | None:
        if peer.node_id == 1:
            if failure == "hangup":
                raise Hangup
            return None
        return active(2)(peer, request, version)

    peers, quorum = ScriptedPeers(script, VERSIONS), ControllerQuorum(VOTERS)
    if failure == "refused":
        peers.unreachable.add(9001)
    quorum.learn(1, 5)
    assert ask(peers, quorum).is_caught_up
    assert quorum.epoch == 5


def test_a_request_fails_at_its_deadline_with_the_last_reason() -> None:
    peers = ScriptedPeers(active(9), VERSIONS)

    async def main() -> float:
        began = asyncio.get_running_loop().time()
        channel = channel_over(peers, ControllerQuorum(VOTERS), 4.0)
        with pytest.raises(RequestTimedOutError) as caught:
            await channel.ask(BEAT)
        assert caught.value.message.startswith("the active controller did not answer within 4 s; the last attempt: ")
        assert caught.value.api == "BrokerHeartbeat"
        channel.close()
        return asyncio.get_running_loop().time() - began

    assert 3.99 <= simulated(main()) < 4.5


def test_a_new_leader_ends_the_pause_between_attempts() -> None:
    quorum = ControllerQuorum([Peer(-1, "localhost", 9001)])

    async def main() -> Any:
        peers = ScriptedPeers(active(2), VERSIONS)
        channel = channel_over(peers, quorum)
        asking = channel.ask(BEAT)
        await peers.have_been_asked(1)
        quorum.learn(2, 9, Peer(2, "localhost", 9002))
        answer = await asking
        channel.close()
        return answer

    assert simulated(main()).is_caught_up


# The quorum


def test_hints_of_an_older_epoch_change_nothing() -> None:
    quorum = ControllerQuorum(VOTERS)
    assert quorum.learn(2, 7)
    assert not quorum.learn(1, 6)
    assert (quorum.leader, quorum.epoch) == (VOTERS[1], 7)


def test_a_later_epoch_without_a_leader_makes_it_unknown() -> None:
    quorum = ControllerQuorum(VOTERS)
    quorum.learn(2, 7)
    assert quorum.learn(-1, 8)
    assert (quorum.leader, quorum.epoch) == (None, 8)


def test_an_address_in_a_response_counts_more_than_that_of_the_settings() -> None:
    quorum = ControllerQuorum(VOTERS)
    quorum.learn(2, 7, Peer(2, "other", 1))
    assert quorum.leader == Peer(2, "other", 1)
    quorum.learn(2, 8)
    assert quorum.leader == VOTERS[1]


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})


def test_addresses_come_from_voters_and_bootstrap_servers() -> None:
    assert quorum_addresses(config(controller_quorum_bootstrap_servers="a:1, [::1]:2")) == [
        Peer(-1, "a", 1),
        Peer(-1, "::1", 2),
    ]
    assert quorum_addresses(config(controller_quorum_voters="1@a:1")) == [Peer(1, "a", 1)]


@pytest.mark.parametrize(
    "settings",
    [
        {"controller_quorum_voters": "a:1"},
        {"controller_quorum_voters": "1@a"},
        {"controller_quorum_bootstrap_servers": "a:0"},
        {"controller_quorum_bootstrap_servers": "a:99999"},
        {},
    ],
    ids=["no id", "no port", "port 0", "port too large", "none"],
)
def test_malformed_addresses_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        quorum_addresses(config(**settings))


# Forwarding

CREATE = CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1)])
FRAME = b"".join(encode_request(CREATE, 7, 42, "app"))[4:]
ANSWER = CreateTopicsResponse(topics=[CreateTopicsResponse.CreatableTopicResult(name="t")])


def forward(answer: EnvelopeResponse) -> tuple[EnvelopeRequest, bytes]:
    """Return the Envelope that was sent, and what the client gets."""
    peers = ScriptedPeers(lambda peer, request, version: answer, VERSIONS)

    async def main() -> bytes:
        channel = channel_over(peers, ControllerQuorum(VOTERS), 1.0)
        try:
            forwarder = Forwarder(channel)
            return await forwarder.forward(FRAME, Principal("User", "alice"), "10.0.0.1", with_token=True)
        finally:
            channel.close()

    data = simulated(main())
    [(_, envelope)] = peers.asked
    assert isinstance(envelope, EnvelopeRequest)
    return envelope, data


def answered(correlation_id: int) -> EnvelopeResponse:
    return EnvelopeResponse(response_data=b"".join(encode_response(ANSWER, 7, correlation_id))[4:])


def test_an_envelope_has_the_request_the_principal_and_the_address() -> None:
    envelope, data = forward(answered(42))
    assert envelope.request_data == FRAME
    assert envelope.client_host_address == bytes([10, 0, 0, 1])
    assert envelope.request_principal is not None
    assert envelope.request_principal[:2] == b"\0\0"
    assert DefaultPrincipalData.decode(envelope.request_principal[2:], 0) == DefaultPrincipalData(
        type="User", name="alice", token_authenticated=True
    )
    assert data == answered(42).response_data


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (EnvelopeResponse(error_code=35), UnsupportedVersionError),
        (EnvelopeResponse(error_code=31), UnknownServerError),
        (EnvelopeResponse(error_code=41), RequestTimedOutError),
        (EnvelopeResponse(), UnknownServerError),
        (EnvelopeResponse(response_data=b""), UnknownServerError),
        (answered(43), UnknownServerError),
    ],
    ids=["version", "not authorized", "never active", "no data", "empty", "of another request"],
)
def test_a_request_that_cannot_be_forwarded_has_an_error(answer: EnvelopeResponse, error: type[Exception]) -> None:
    with pytest.raises(error):
        forward(answer)
