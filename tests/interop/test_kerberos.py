"""GSSAPI with a real key distribution center: this client at Apache Kafka and at refbroker, and Java's at refbroker."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kclient import Admin, Consumer, Producer
from kclient.admin import AclBinding, AclOperation, AclResourceType, NewTopic
from kclient.errors import KafkaTimeoutError, SaslAuthenticationError, TopicAuthorizationError
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kclient.security.kerberos.library import lifetime_of
from kclient.security.kerberos.login import KerberosLogin
from kclient.security.kerberos.settings import KerberosSettings
from refbroker.testing import RefBroker
from tests.support.kafka.cluster import KafkaCluster, free_ports
from tests.support.kafka.tools import JavaTools
from tests.support.kerberos import REALM, Realm, unavailable_reason
from tests.support.patience import ANSWER, CHANGE

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
RULES = "RULE:[2:$1-$2](svc-.*)s/svc-//U,DEFAULT"
"""The principal svc/web is the user WEB."""


class Keytabs(NamedTuple):
    """The keytabs of the principals in the realm."""

    broker: Path
    alice: Path
    service: Path


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """A realm that this process, and those that it starts, find while the tests of this module run."""
    if reason := unavailable_reason():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as variables, Realm(tmp_path_factory.mktemp("realm")) as running:
        for name, value in running.environment.items():
            variables.setenv(name, value)
        yield running


@pytest.fixture(scope="module")
def keytabs(realm: Realm) -> Keytabs:
    return Keytabs(realm.keytab("kafka/localhost"), realm.keytab("alice"), realm.keytab("svc/web"))


def broker_settings(listener: str, keytab: Path) -> dict[str, str]:
    """Return the settings of GSSAPI for a listener, of either broker."""
    jaas = f'{MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
    return {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": RULES,
        f"listener.name.{listener}.gssapi.sasl.jaas.config": jaas,
    }


class KerberizedKafka(KafkaCluster):
    """Apache Kafka with a further listener that has GSSAPI."""

    def __init__(self, directory: Path, keytab: Path) -> None:
        super().__init__(directory=directory)
        self._keytab = keytab
        (self.port,) = free_ports(1)

    def _settings(self, node: int) -> Iterator[tuple[str, object]]:
        settings = dict(super()._settings(node))
        for name in ("listeners", "advertised.listeners"):
            settings[name] = f"{settings[name]},KERBEROS://localhost:{self.port}"
        protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,KERBEROS:SASL_PLAINTEXT"
        settings |= {"listener.security.protocol.map": protocols, "super.users": "User:ANONYMOUS"}
        return iter((settings | broker_settings("kerberos", self._keytab)).items())


class Listener(NamedTuple):
    """A listener with GSSAPI, and one of the same broker without any security."""

    kerberized: str
    plain: str


@pytest.fixture(scope="module")
def apache_kafka(needs_kafka: None, keytabs: Keytabs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listener]:
    with KerberizedKafka(tmp_path_factory.mktemp("kerberized"), keytabs.broker) as kafka:
        yield Listener(f"localhost:{kafka.port}", kafka.bootstrap_servers)


@pytest.fixture(scope="module")
def refbroker_kerberized(keytabs: Keytabs) -> Iterator[Listener]:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,KERBEROS://localhost:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,KERBEROS:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    with RefBroker(settings=settings | broker_settings("kerberos", keytabs.broker)) as broker:
        port = broker.address("KERBEROS").rpartition(":")[2]
        yield Listener(f"localhost:{port}", broker.address("PLAINTEXT"))


@pytest.fixture(params=["apache_kafka", "refbroker_kerberized"])
def listener(request: pytest.FixtureRequest) -> Listener:
    """Each of both brokers."""
    found: Listener = request.getfixturevalue(request.param)
    return found


def client(where: Listener, jaas: str | None, **further: Any) -> dict[str, Any]:
    """Return the options of a client of the listener with GSSAPI."""
    options: dict[str, Any] = {
        "bootstrap_servers": where.kerberized,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }
    if jaas is not None:
        options["sasl_jaas_config"] = jaas
    return {**options, **further}


def keytab_login(keytab: Path, principal: str) -> str:
    return f'{MODULE} useKeyTab=true keyTab="{keytab}" principal="{principal}";'


def test_a_client_logs_in_with_a_keytab(listener: Listener, keytabs: Keytabs) -> None:
    options = client(listener, keytab_login(keytabs.alice, "alice"))
    with Producer(**options) as producer, Consumer("t", auto_offset_reset="earliest", **options) as consumer:
        producer.send("t", b"v").result(CHANGE)
        assert [record.value for record in consumer.poll(CHANGE)] == [b"v"]


@pytest.mark.parametrize("module", [True, False], ids=["jaas", "default"])
def test_a_client_logs_in_with_a_ticket_cache(
    listener: Listener, keytabs: Keytabs, realm: Realm, tmp_path: Path, module: bool
) -> None:
    cache = tmp_path / "cache"
    arguments = ("-c", str(cache)) if module else ()
    realm.kinit(*arguments, "-k", "-t", str(keytabs.alice), "alice")
    jaas = f'{MODULE} useTicketCache=true ticketCache="{cache}";' if module else None
    with Admin(**client(listener, jaas)) as admin:
        assert isinstance(admin.list_topics(), dict)


def test_the_rules_make_the_user_of_a_principal(listener: Listener, keytabs: Keytabs) -> None:
    topic = "for-the-service"
    with Admin(bootstrap_servers=listener.plain) as admin:
        admin.create_topics(NewTopic(topic))
        admin.create_acls(AclBinding(AclResourceType.TOPIC, topic, "User:WEB", AclOperation.WRITE))
    with Producer(**client(listener, keytab_login(keytabs.service, f"svc/web@{REALM}"))) as producer:
        producer.send(topic, b"v").result(CHANGE)
    with (
        Producer(**client(listener, keytab_login(keytabs.alice, "alice"))) as producer,
        pytest.raises(TopicAuthorizationError),
    ):
        producer.send(topic, b"v").result(CHANGE)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"sasl_kerberos_service_name": "other"},
         "Server other/localhost@KCLIENT.TEST not found in Kerberos database; check sasl_kerberos_service_name"),
        ({"sasl_jaas_config": "bob"}, "has no keys of the principal 'bob'; check principal and keyTab"),
        ({"sasl_jaas_config": "alice@OTHER.TEST"}, "has no keys of the principal 'alice@OTHER.TEST'"),
    ],
    ids=["service", "principal", "realm"],
)  # fmt: skip
def test_a_refusal_of_kerberos_says_what_to_check(
    refbroker_kerberized: Listener, keytabs: Keytabs, changes: dict[str, str], text: str
) -> None:
    jaas = keytab_login(keytabs.alice, changes.pop("sasl_jaas_config", "alice"))
    with (
        Admin(**client(refbroker_kerberized, jaas, **changes)) as admin,
        pytest.raises(SaslAuthenticationError, match=text),
    ):
        admin.list_topics()


def test_without_a_ticket_the_error_points_to_kinit(refbroker_kerberized: Listener, tmp_path: Path) -> None:
    jaas = f'{MODULE} useTicketCache=true ticketCache="{tmp_path / "none"}";'
    with (
        Admin(**client(refbroker_kerberized, jaas)) as admin,
        pytest.raises(SaslAuthenticationError, match="there is no valid ticket; get one with kinit"),
    ):
        admin.list_topics()


def test_a_broker_with_old_keys_refuses_the_login(listener: Listener, realm: Realm, keytabs: Keytabs) -> None:
    principal = f"at-{listener.kerberized.replace(':', '-')}"
    keytab = realm.keytab(principal)
    realm.change_keys("kafka/localhost")
    try:
        with (
            Admin(**client(listener, keytab_login(keytab, principal))) as admin,
            pytest.raises(SaslAuthenticationError, match="could not log in with GSSAPI: Authentication failed during"),
        ):
            admin.list_topics()
    finally:
        realm.add_keys("kafka/localhost", keytabs.broker)


def test_a_client_recovers_once_the_kdc_can_be_reached(refbroker_kerberized: Listener, realm: Realm) -> None:
    keytab = realm.keytab("late")
    options = client(refbroker_kerberized, keytab_login(keytab, "late"), default_api_timeout_ms=1500)
    realm.stop()
    try:
        with Admin(**options) as admin:
            with pytest.raises(KafkaTimeoutError, match="Cannot contact any KDC for realm 'KCLIENT"):
                admin.list_topics()
            realm.start()
            assert isinstance(admin.list_topics(timeout=ANSWER), dict)
    finally:
        realm.start()


@pytest.mark.parametrize(("lifetime", "requests"), [("4 seconds", 3), ("1 hour", 1)], ids=["brief", "long"])
def test_tickets_of_a_keytab_are_replaced_before_they_expire(realm: Realm, lifetime: str, requests: int) -> None:
    principal = f"with-{lifetime.replace(' ', '-')}"
    settings = KerberosSettings("kafka", principal, str(realm.keytab(principal, maxlife=lifetime)))
    for _ in range(3):
        assert lifetime_of(settings.principal, settings.store) > 0
    assert realm.ticket_requests(principal) == requests


def test_tickets_of_a_ticket_cache_are_renewed(realm: Realm, tmp_path: Path, rng: random.Random) -> None:
    keytab, cache = realm.keytab("renewing", maxrenewlife="1d"), tmp_path / "cache"
    realm.kinit("-c", str(cache), "-r", "1d", "-k", "-t", str(keytab), "renewing")
    before = cache.read_bytes()
    settings = KerberosSettings("kafka", ticket_cache=str(cache), renews=True, kinit=str(shutil.which("kinit")))
    login = KerberosLogin(settings, clock=lambda: 0.0, rng=rng)
    login.refresh()
    assert cache.read_bytes() != before
    assert 0 < login.refresh_at < 3600


def test_after_the_old_handshake_gssapi_has_no_last_response(
    refbroker_kerberized: Listener, keytabs: Keytabs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SaslHandshakeRequest, "max_version", 0)
    with Admin(**client(refbroker_kerberized, keytab_login(keytabs.alice, "alice"))) as admin:
        assert isinstance(admin.list_topics(), dict)


def test_the_java_tools_log_in_at_refbroker(
    needs_kafka: None, refbroker_kerberized: Listener, keytabs: Keytabs, tmp_path: Path
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={keytab_login(keytabs.alice, f'alice@{REALM}')}\n"
    )
    tools = JavaTools(refbroker_kerberized.kerberized)
    tools.produce("java", "from java\n", "--command-config", str(config))
    assert "from java" in tools.consume("java", 1, "--command-config", str(config))


def test_kafka_python_logs_in_at_refbroker(refbroker_kerberized: Listener, realm: Realm, keytabs: Keytabs) -> None:
    kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
    realm.kinit("-k", "-t", str(keytabs.alice), "alice")
    producer = kafka.KafkaProducer(
        bootstrap_servers=refbroker_kerberized.kerberized, security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI"
    )
    try:
        assert producer.send("python", b"v").get(timeout=ANSWER).offset == 0
    finally:
        producer.close()
