"""OAUTHBEARER with others: this client with Apache Kafka, other clients and Kafka's tools with refbroker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, Consumer, Producer
from kclient.errors import SaslAuthenticationError
from kclient.security.oauth.tokens import unsecured_token
from refbroker.testing import RefBroker
from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.tools import JavaTools
from tests.support.oauth_provider import AUDIENCE, ISSUER, OAuthProvider, oauth_provider
from tests.support.patience import ANSWER, CHANGE

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
UNSECURED = f'{MODULE} unsecuredLoginStringClaim_sub="alice";'
SIGNED_LISTENER = "SIGNED"
UNSECURED_LISTENER = "UNSECURED"


@pytest.fixture(scope="module")
def provider() -> Iterator[OAuthProvider]:
    with oauth_provider() as running, pytest.MonkeyPatch.context() as environment:
        # Java connects to no endpoint that is not listed.
        urls = f"{running.token_url},{running.keys_url}"
        environment.setenv("JAVA_TOOL_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}")
        now = int(time.time())
        running.token = running.key.token(sub="alice", iat=now, exp=now + 3600, iss=ISSUER, aud=AUDIENCE, scope="kafka")
        yield running


def broker_settings(provider: OAuthProvider) -> dict[str, str]:
    """Return the settings of two listeners, one for signed and one for unsecured tokens."""
    signed = f"listener.name.{SIGNED_LISTENER.lower()}.oauthbearer"
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{signed}.sasl.jaas.config": f"{MODULE};",
        f"{signed}.sasl.server.callback.handler.class": VALIDATOR,
        f"listener.name.{UNSECURED_LISTENER.lower()}.oauthbearer.sasl.jaas.config": f"{MODULE};",
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }


@pytest.fixture(scope="module")
def kafka(
    needs_kafka: None, provider: OAuthProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    listeners = dict.fromkeys((SIGNED_LISTENER, UNSECURED_LISTENER), "SASL_PLAINTEXT")
    directory = tmp_path_factory.mktemp("oauth")
    with KafkaCluster(directory=directory, listeners=listeners, config=broker_settings(provider)) as running:
        yield running


@pytest.fixture(scope="module")
def refbroker(provider: OAuthProvider) -> Iterator[RefBroker]:
    names = (SIGNED_LISTENER, UNSECURED_LISTENER)
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:SASL_PLAINTEXT" for name in names),
        **broker_settings(provider),
    }
    with RefBroker(settings=settings) as running:
        yield running


def client(address: str, **options: Any) -> dict[str, Any]:
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    return {"bootstrap_servers": address, **login, **options}


def credentials(provider: OAuthProvider) -> dict[str, str]:
    return {
        "sasl_oauthbearer_token_endpoint_url": provider.token_url,
        "sasl_oauthbearer_client_credentials_client_id": "billing",
        "sasl_oauthbearer_client_credentials_client_secret": "secret",
    }


def send_and_read(options: dict[str, Any], topic: str) -> None:
    with Producer(**options) as producer:
        producer.send(topic, b"v").result(CHANGE)
    with Consumer(topic, auto_offset_reset="earliest", **options) as consumer:
        assert [record.value for record in consumer.poll(CHANGE)] == [b"v"]


def test_signed_tokens_log_in_at_kafka(kafka: KafkaCluster, provider: OAuthProvider) -> None:
    address = kafka.address(listener=SIGNED_LISTENER)
    send_and_read(client(address, **credentials(provider)), "signed")


def test_unsecured_tokens_log_in_at_kafka(kafka: KafkaCluster) -> None:
    address = kafka.address(listener=UNSECURED_LISTENER)
    send_and_read(client(address, sasl_jaas_config=UNSECURED), "unsecured")


@pytest.mark.parametrize("listener", [SIGNED_LISTENER, UNSECURED_LISTENER])
@pytest.mark.parametrize("claims", [{"sub": "alice"}, {"exp": 4e9}], ids=["no expiry", "no user"])
def test_kafka_and_refbroker_refuse_tokens_alike(
    kafka: KafkaCluster, refbroker: RefBroker, listener: str, claims: dict[str, Any]
) -> None:
    token = unsecured_token({"iat": time.time() - 1, **claims})
    texts = []
    for address in (kafka.address(listener=listener), refbroker.address(listener)):
        with Admin(**client(address, sasl_oauth_token_provider=lambda: token)) as admin:
            with pytest.raises(SaslAuthenticationError) as caught:
                admin.list_topics()
            texts.append(caught.value.message)
    assert texts[0] == texts[1]
    assert '{"status":"invalid_token"}' in texts[0]


def java_properties(directory: Path, **more: str) -> str:
    path = directory / "client.properties"
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **more}
    path.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
    return str(path)


def test_the_java_client_logs_in_with_signed_tokens(
    needs_kafka: None, refbroker: RefBroker, provider: OAuthProvider, tmp_path: Path
) -> None:
    properties = java_properties(
        tmp_path,
        **{
            "sasl.jaas.config": f'{MODULE} clientId="billing" clientSecret="secret";',
            "sasl.login.callback.handler.class": LOGIN,
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        },
    )
    tools = JavaTools(refbroker.address(SIGNED_LISTENER))
    created = tools.topics("--command-config", properties, "--create", "--topic", "java-signed")
    assert "Created topic java-signed" in created
    # The same properties serve this client.
    with Admin.from_properties(properties, bootstrap_servers=refbroker.address(SIGNED_LISTENER)) as admin:
        assert "java-signed" in admin.list_topics()


def test_the_java_client_logs_in_with_unsecured_tokens(needs_kafka: None, refbroker: RefBroker, tmp_path: Path) -> None:
    tools = JavaTools(refbroker.address(UNSECURED_LISTENER))
    properties = java_properties(tmp_path, **{"sasl.jaas.config": UNSECURED})
    created = tools.topics("--command-config", properties, "--create", "--topic", "java-unsecured")
    assert "Created topic java-unsecured" in created


def test_confluent_kafka_logs_in(refbroker: RefBroker, provider: OAuthProvider) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    delivered: list[Any] = []
    producer = confluent.Producer(
        {
            "bootstrap.servers": refbroker.address(SIGNED_LISTENER),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (provider.token, time.time() + 3600),
        }
    )
    producer.produce("confluent-oauth", b"v", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(ANSWER)
    assert delivered == [None]


async def test_aiokafka_logs_in(refbroker: RefBroker, provider: OAuthProvider) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
        async def token(self) -> str:
            return provider.token

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=refbroker.address(SIGNED_LISTENER),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    await producer.start()
    assert (await producer.send_and_wait("aio-oauth", b"v")).offset == 0
    await producer.stop()
