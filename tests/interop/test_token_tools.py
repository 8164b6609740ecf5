"""Delegation tokens of refbroker, managed by Kafka's kafka-delegation-tokens, and used by a Java client."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kclient import Admin
from refbroker.testing import RefBroker
from tests.support.kafka.tools import JavaTools

MODULE = "org.apache.kafka.common.security.{}LoginModule required"
USERS = {"alice": "a", "bob": "b"}
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
MINUTE_MS, LIFETIME_MS = 60_000, 600_000


@pytest.fixture
def broker(needs_kafka: None) -> Iterator[RefBroker]:
    with RefBroker(sasl=USERS, settings={"delegation.token.secret.key": "k3y"}) as running:
        running.clock.hold()
        yield running


def properties(path: Path, mechanism: str, jaas: str) -> str:
    """Write the file of a Java client; return its path."""
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
    return str(path)


@pytest.fixture
def tool(broker: RefBroker, tmp_path: Path) -> Callable[..., str]:
    """Run the tool as alice."""
    jaas = f'{MODULE.format("plain.Plain")} username="alice" password="a";'
    config = properties(tmp_path / "alice.properties", "PLAIN", jaas)
    return partial(JavaTools(broker.bootstrap_servers).run, TOKENS, "--command-config", config)


def test_kafka_delegation_tokens_manages_tokens(broker: RefBroker, tool: Callable[..., str], tmp_path: Path) -> None:
    created = tool("--create", "--max-life-time-period", str(LIFETIME_MS), "--renewer-principal", "User:bob")
    token_id, secret = re.findall(r"^(\S{22}) +(\S+==) +User:alice +User:alice +\[User:bob\]", created, re.MULTILINE)[0]
    with Admin(**broker.client_options) as admin:
        (token,) = admin.describe_delegation_token()
        assert (token.token_id, token.hmac.reveal()) == (token_id, secret)
        assert token.expiry_timestamp == token.issue_timestamp + LIFETIME_MS
        assert len(b64decode(secret)) == 64

        described = tool("--describe", "--owner-principal", "User:alice")
        assert "Total number of tokens : 1" in described
        assert re.search(rf"^{token_id} +{re.escape(secret)} +User:alice ", described, re.MULTILINE)
        assert "Total number of tokens : 0" in tool("--describe", "--owner-principal", "User:nobody")

        jaas = f'{MODULE.format("scram.Scram")} username="{token_id}" password="{secret}" tokenauth="true";'
        holder = properties(tmp_path / "holder.properties", "SCRAM-SHA-512", jaas)
        java = JavaTools(broker.bootstrap_servers)
        broker.create_topic("orders")
        assert "orders" in java.topics("--list", "--command-config", holder)
        refused = java.run(TOKENS, "--command-config", holder, "--describe")
        assert "Delegation Token requests are not allowed on" in refused

        assert "Completed expire operation" in tool(
            "--expire", "--hmac", secret, "--expiry-time-period", str(MINUTE_MS)
        )
        (token,) = admin.describe_delegation_token()
        assert token.expiry_timestamp == token.issue_timestamp + MINUTE_MS
        assert "Completed renew operation" in tool("--renew", "--hmac", secret, "--renew-time-period", "-1")
        (token,) = admin.describe_delegation_token()
        assert token.expiry_timestamp == token.max_timestamp

        broker.clock.step(LIFETIME_MS / 1000 + 1)
        expired = tool("--renew", "--hmac", secret, "--renew-time-period", "-1")
        assert "DelegationTokenExpiredException" in expired
        assert "Completed expire operation" in tool("--expire", "--hmac", secret, "--expiry-time-period", "-1")
        assert admin.describe_delegation_token() == []
        assert "DelegationTokenNotFoundException" in tool("--renew", "--hmac", secret, "--renew-time-period", "-1")
