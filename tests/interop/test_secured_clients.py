"""Clients of others at refbroker over TLS: logins, certificates, and what they say of each refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kclient.security.scram import MECHANISMS
from refbroker.testing import RefBroker
from refbroker.testing.certificates import Certificates
from tests.interop.secured_clients import BUILT, CLIENTS, READ, Access, Client
from tests.support.names import unique
from tests.support.patience import DOWNLOAD, GUARD

USERS = {"root": "root-secret", "alice": "alice-secret"}
OPEN, DENIED = "open", "denied"
WAYS = ("certificate", "PLAIN", *MECHANISMS)

pytestmark = pytest.mark.timeout(GUARD + DOWNLOAD)


@pytest.fixture(scope="module")
def broker() -> Iterator[RefBroker]:
    """A broker at which alice may write to some topics, and read them, however she proves who she is."""
    settings = {
        "listeners": "LOGIN://127.0.0.1:0,CERTIFICATE://127.0.0.1:0",
        "listener.security.protocol.map": "LOGIN:SASL_SSL,CERTIFICATE:SSL",
        "listener.name.certificate.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/",
    }
    with RefBroker(tls=True, sasl=USERS, acls=True, settings=settings) as running:
        running.create_topic(DENIED)
        running.allow("User:alice", "WRITE", topic=OPEN, prefixed=True)
        running.allow("User:alice", "READ", topic=OPEN, prefixed=True)
        running.allow("User:alice", "READ", group="g", prefixed=True)
        yield running


@pytest.fixture(params=[*CLIENTS, *(pytest.param(name, marks=pytest.mark.nightly) for name in BUILT)])
def client(request: pytest.FixtureRequest) -> Client:
    return {**CLIENTS, **BUILT}[request.param]


def access(broker: RefBroker, way: str, **changes: Any) -> Access:
    listener = "CERTIFICATE" if way == "certificate" else "LOGIN"
    given = Access(broker.address(listener), broker.certificates.authority, unique(OPEN), unique("g"))
    if way == "certificate":
        chain, key = broker.certificates.issue("alice")
        given = given._replace(certificate=chain, key=key)
    else:
        given = given._replace(mechanism=way, user="alice", password=USERS["alice"])
    return given._replace(**changes)


@pytest.mark.parametrize("way", WAYS)
def test_a_client_writes_and_reads(broker: RefBroker, client: Client, way: str) -> None:
    given = access(broker, way)
    broker.create_topic(given.topic)
    assert client.run(given) == READ


def test_a_wrong_password_is_an_error_that_says_so(broker: RefBroker, client: Client) -> None:
    said = client.run(access(broker, "SCRAM-SHA-256", password="no"))
    assert client.errors.password in said or (client.errors.no_answer is not None and client.errors.no_answer in said)


def test_an_unknown_authority_is_an_error_that_says_so(broker: RefBroker, client: Client) -> None:
    stranger = Certificates().authority
    assert client.errors.authority in client.run(access(broker, "SCRAM-SHA-256", authority=stranger))


def test_a_denied_topic_is_an_error_that_says_so(broker: RefBroker, client: Client) -> None:
    assert client.errors.topic in client.run(access(broker, "SCRAM-SHA-512", topic=DENIED))
