"""A broker's own login at its listener for brokers, and what other users may not do there."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kclient.errors import ClusterAuthorizationError, ConfigError, SaslAuthenticationError, TopicAuthorizationError
from kclient.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from kclient.security.sasl import PasswordLogin
from kclient.security.secret import Secret
from refbroker.peers.channel import Channel, ChannelSettings
from refbroker.peers.network import LoopConnector, Peer
from refbroker.peers.security import PeerSecurity, peer_security
from refbroker.testing import RefBroker
from tests.support.wire import fetch_request

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = {"broker": "broker-secret", "alice": "alice-secret"}
"""The first one may do everything."""
LOGINS = {
    "listener.name.inside.plain.sasl.jaas.config": f'{PLAIN_MODULE} required username="broker" '
    'password="broker-secret" user_broker="broker-secret" user_alice="alice-secret";',
    "listener.name.inside.scram-sha-256.sasl.jaas.config": f'{SCRAM_MODULE} required username="broker" '
    'password="broker-secret";',
}


def broker_with(protocol: str, **settings: str) -> RefBroker:
    """Return a broker whose listener INSIDE, for brokers, has a security protocol."""
    own = {
        "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": f"OUTSIDE:SASL_PLAINTEXT,INSIDE:{protocol}",
        "inter.broker.listener.name": "INSIDE",
        **LOGINS,
        **settings,
    }
    return RefBroker(tls=protocol in ("SSL", "SASL_SSL"), sasl=USERS, acls=True, settings=own)


def security_of(broker: RefBroker) -> PeerSecurity:
    return broker.call(lambda kafka: peer_security(kafka.parts.config))


def follower_fetch(topic: str) -> FetchRequest:
    request = fetch_request(topic)
    request.replica_id = 2
    return request


def marker() -> WriteTxnMarkersRequest:
    kind = WriteTxnMarkersRequest
    topics = [kind.WritableTxnMarkerTopic(name="t", partition_indexes=[0])]
    return kind(markers=[kind.WritableTxnMarker(producer_id=1, transaction_result=True, topics=topics)])


def batched() -> AddPartitionsToTxnRequest:
    kind = AddPartitionsToTxnRequest
    topics = [kind.AddPartitionsToTxnTopic(name="t", partitions=[0])]
    one = kind.AddPartitionsToTxnTransaction(transactional_id="x", producer_id=1, verify_only=True, topics=topics)
    return kind(transactions=[one])


def outcomes(broker: RefBroker, security: PeerSecurity, login: PasswordLogin | None = None) -> dict[str, int]:
    """Return the errors of requests for which a client needs CLUSTER_ACTION.

    Parameters:
        security: how the broker connects to its listener for brokers.
        login: who logs in instead of the broker.
    """
    host, _, port = broker.address("INSIDE").rpartition(":")
    who = security if login is None else security._replace(login=login)

    async def ask() -> dict[str, int]:
        channel = Channel(
            Peer(1, host, int(port)), who, LoopConnector(), ChannelSettings("refbroker-2"), random.Random(1)
        )
        try:
            fetched = (await channel.ask(follower_fetch("t"), version=11)).responses[0].partitions[0]
            marked = (await channel.ask(marker(), version=1)).markers[0].topics[0].partitions[0]
            batches = await channel.ask(batched(), version=5)
        finally:
            channel.close()
        return {"fetch": fetched.error_code, "markers": marked.error_code, "transactions": batches.error_code}

    return asyncio.run(ask())


@pytest.mark.not_simulated("OpenSSL encrypts real sockets only")
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_broker_logs_in_at_its_own_listener_and_acts_on_the_cluster(protocol: str, mechanism: str) -> None:
    chosen = {"sasl.mechanism.inter.broker.protocol": mechanism, "listener.name.inside.ssl.client.auth": "required"}
    with broker_with(protocol, **chosen) as broker:
        broker.create_topic("t")
        security = security_of(broker)
        assert (security.listener, security.protocol.name) == ("INSIDE", protocol)
        assert security.login == PasswordLogin(mechanism, "broker", Secret("broker-secret"))
        refusals = {ClusterAuthorizationError.code, TopicAuthorizationError.code}
        assert not refusals.intersection(outcomes(broker, security).values())
        alice = PasswordLogin(mechanism, "alice", Secret("alice-secret"))
        assert outcomes(broker, security, alice) == {
            "fetch": TopicAuthorizationError.code,
            "markers": ClusterAuthorizationError.code,
            "transactions": ClusterAuthorizationError.code,
        }


@pytest.mark.not_simulated("OpenSSL encrypts real sockets only")
def test_a_certificate_is_the_login_at_a_listener_with_tls_alone() -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/", "ssl.client.auth": "required"}
    with broker_with("SSL", **rules) as broker:
        broker.create_topic("t")
        security = security_of(broker)
        assert (security.login, security.protocol.name) == (None, "SSL")
        # The broker's own certificate is that of the user "broker".
        assert TopicAuthorizationError.code not in outcomes(broker, security).values()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
            'listener.name.inside.scram-sha-512.sasl.jaas.config needs username="..." and password="..."',
        ),
        (
            {"listener.name.inside.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_a="b";'},
            'listener.name.inside.plain.sasl.jaas.config needs username="..." and password="..."',
        ),
    ],
    ids=["no entry", "users only"],
)
def test_a_missing_login_of_brokers_is_named(settings: dict[str, Any], text: str) -> None:
    with broker_with("SASL_PLAINTEXT", **settings) as broker, pytest.raises(ConfigError) as caught:
        security_of(broker)
    assert caught.value.message.startswith(text)


@pytest.mark.not_simulated("needs sockets")
def test_a_broker_with_a_wrong_password_is_refused_by_name() -> None:
    with broker_with("SASL_PLAINTEXT") as broker:
        security = security_of(broker)
        with pytest.raises(SaslAuthenticationError) as caught:
            outcomes(broker, security, PasswordLogin("PLAIN", "broker", Secret("guess")))
    assert "the user 'broker' could not log in with PLAIN" in caught.value.message
    assert "listener INSIDE, SASL_PLAINTEXT with PLAIN" in str(caught.value)
    assert "guess" not in str(caught.value)


@pytest.mark.not_secured("has no security")
def test_a_broker_without_security_connects_without() -> None:
    with RefBroker() as broker:
        security = security_of(broker)
    assert (security.listener, security.login, security.tls) == ("PLAINTEXT", None, None)
