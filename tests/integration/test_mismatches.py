"""Clients whose security protocol is not that of the listener: both sides say what to set."""

from __future__ import annotations

from typing import Any

import pytest

from kclient import Admin
from kclient.errors import IllegalSaslStateError, KafkaError, KafkaTimeoutError, NotKafkaError
from refbroker.testing import RefBroker
from tests.support import pki
from tests.support.waiting import wait_until

pytestmark = pytest.mark.refbroker_only

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
IS_TLS = "it sent a TLS record: this is a TLS port; set "
NO_TLS = "the peer closed the connection during the TLS handshake; if this listener has no TLS, set "
NO_SASL = "the listener has no SASL; set "
IS_SASL = "instead of responding to Metadata; if this listener has SASL, set "
SAYS = {
    ("PLAINTEXT", "SSL"): (NotKafkaError, f'{IS_TLS}security_protocol="SSL", or "SASL_SSL" if it has SASL'),
    ("PLAINTEXT", "SASL_SSL"): (NotKafkaError, f'{IS_TLS}security_protocol="SSL", or "SASL_SSL" if it has SASL'),
    ("PLAINTEXT", "SASL_PLAINTEXT"): (KafkaTimeoutError, f'{IS_SASL}security_protocol="SASL_PLAINTEXT"'),
    ("SSL", "PLAINTEXT"): (KafkaTimeoutError, f'{NO_TLS}security_protocol="PLAINTEXT"'),
    ("SSL", "SASL_PLAINTEXT"): (KafkaTimeoutError, f'{NO_TLS}security_protocol="PLAINTEXT"'),
    ("SSL", "SASL_SSL"): (KafkaTimeoutError, f'{IS_SASL}security_protocol="SASL_SSL"'),
    ("SASL_PLAINTEXT", "PLAINTEXT"): (IllegalSaslStateError, f'{NO_SASL}security_protocol="PLAINTEXT"'),
    ("SASL_PLAINTEXT", "SSL"): (NotKafkaError, f'{IS_TLS}security_protocol="SASL_SSL"'),
    ("SASL_PLAINTEXT", "SASL_SSL"): (NotKafkaError, f'{IS_TLS}security_protocol="SASL_SSL"'),
    ("SASL_SSL", "PLAINTEXT"): (KafkaTimeoutError, f'{NO_TLS}security_protocol="SASL_PLAINTEXT"'),
    ("SASL_SSL", "SSL"): (IllegalSaslStateError, f'{NO_SASL}security_protocol="SSL"'),
    ("SASL_SSL", "SASL_PLAINTEXT"): (KafkaTimeoutError, f'{NO_TLS}security_protocol="SASL_PLAINTEXT"'),
}
"""What a client raises, by its security protocol and that of the listener."""
LOGS = {
    (False, True): "the TLS handshake failed: wrong version number; it does not use TLS: ",
    (True, False): "it looks like TLS: ",
}
"""What the broker logs, by whether the client and the listener have TLS; else it is about SASL."""
LOGS_SASL = {
    (False, True): "a request of API 3 from a client that has not logged in: ",
    (True, False): "its client logs in, and the listener has no SASL: ",
}


def has_tls(protocol: str) -> bool:
    return protocol in ("SSL", "SASL_SSL")


def has_sasl(protocol: str) -> bool:
    return protocol.startswith("SASL")


def broker_with(protocol: str) -> RefBroker:
    return RefBroker(tls=has_tls(protocol), sasl={"alice": "wonder"} if has_sasl(protocol) else None)


def options(broker: RefBroker, protocol: str) -> dict[str, Any]:
    given: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "security_protocol": protocol}
    if has_tls(protocol):
        given["ssl_truststore_certificates"] = broker.client_options.get(
            "ssl_truststore_certificates", pki.authority_pem()
        )
    if has_sasl(protocol):
        given |= {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "wonder"}
    return {**given, "default_api_timeout_ms": 1000}


@pytest.mark.parametrize(("client", "listener"), SAYS, ids="-".join)
def test_both_sides_say_what_to_set(client: str, listener: str, caplog: pytest.LogCaptureFixture) -> None:
    kind, text = SAYS[client, listener]
    with broker_with(listener) as broker:
        with Admin(**options(broker, client)) as admin, pytest.raises(KafkaError) as caught:
            admin.list_topics()
        assert isinstance(caught.value, kind)
        assert text in str(caught.value)
        about_tls = LOGS.get((has_tls(client), has_tls(listener)))
        found = about_tls or LOGS_SASL[has_sasl(client), has_sasl(listener)]
        line = f"{found}set security.protocol={listener} in the client, or use another listener than {listener}"
        wait_until(lambda: line in caplog.text)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_with_the_protocol_of_the_listener_is_served(protocol: str) -> None:
    with broker_with(protocol) as broker, Admin(**options(broker, protocol)) as admin:
        assert admin.list_topics() == {}
