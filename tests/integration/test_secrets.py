"""A search of everything that a run shows for the passwords, keys and tokens that it used."""

from __future__ import annotations

import io
import logging
import pickle
import traceback
from base64 import b64decode
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import kclient
from kclient import Admin, Consumer, Producer
from kclient.admin import AlterConfig, ConfigResource, ResourceType, ScramUpsertion
from kclient.errors import KafkaError
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest
from refbroker.__main__ import main
from refbroker.metrics.exposition import as_text
from refbroker.testing import RefBroker
from tests.support import pki
from tests.support.command_line import Cli
from tests.support.patience import ANSWER
from tests.support.wire import Wire, frame

PASSWORD = "correct-horse-battery"
WRONG = "wrong-horse-battery"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
TOKEN_KEY = "battery-of-the-brokers"
ROOT = Path(kclient.__file__).parent.parent


class Shown:
    """What a run has shown."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, *values: object) -> None:
        self.texts += [text for value in values for text in (str(value), repr(value))]

    def add_error(self, error: BaseException, *, locals_too: bool = False) -> None:
        """Add an error with its traceback.

        Parameters:
            locals_too: whether to add the variables of the frames that belong to the packages, as some loggers do.
        """
        self.add(error, "".join(traceback.format_exception(error)), pickle.loads(pickle.dumps(error)))
        for entered, _ in traceback.walk_tb(error.__traceback__) if locals_too else ():
            if Path(entered.f_code.co_filename).is_relative_to(ROOT / "kclient"):
                self.add(*entered.f_locals.values())

    def check(self, *secrets: str) -> None:
        assert len(self.texts) > 20
        for secret in secrets:
            assert len(secret) > 10
            assert not [text for text in self.texts if secret in text]


def use(shown: Shown, options: dict[str, Any]) -> None:
    with Producer(**options) as producer, Admin(**options) as admin:
        try:
            shown.add(producer.send("t", b"v").result(ANSWER))
            shown.add(admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
        except KafkaError as error:
            shown.add_error(error, locals_too=True)
        shown.add(producer, admin, producer.metrics(), producer.health(), admin.metrics(), admin.health())
    with Consumer("t", group_id="g", auto_offset_reset="earliest", **options) as consumer:
        try:
            shown.add(consumer.poll(ANSWER))
        except KafkaError as error:
            shown.add_error(error, locals_too=True)
        shown.add(consumer, consumer.metrics(), consumer.health())


def body(key: str) -> str:
    """Return a line of a key that no other key has."""
    return key.splitlines()[2]


@pytest.mark.refbroker_only
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_no_secret_is_shown_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture, mechanism: str) -> None:
    shown = Shown()
    key = pki.encrypted_key(pki.certificate("broker", "127.0.0.1").key, PASSWORD)
    settings = {
        "ssl.keystore.certificate.chain": pki.certificate("broker", "127.0.0.1").chain,
        "ssl.keystore.key": key,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.certificates": pki.authority_pem(),
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "delegation.token.secret.key": TOKEN_KEY,
    }
    chain, own_key = pki.certificate("client")
    with caplog.at_level(logging.DEBUG):
        with RefBroker(data_dir=tmp_path / "data", tls=True, sasl={"alice": PASSWORD}, settings=settings) as kafka:
            options = {
                **kafka.client_options,
                "sasl_mechanism": mechanism,
                "ssl_truststore_certificates": pki.authority_pem(),
                "ssl_keystore_certificate_chain": chain,
                "ssl_keystore_key": pki.encrypted_key(own_key, PASSWORD),
                "ssl_key_password": PASSWORD,
            }
            use(shown, options)
            use(shown, {**options, "sasl_password": WRONG})
            for wrong in ({"ssl_key_password": WRONG}, {"ssl_keystore_key": own_key[100:]}, {"sasl_mechanism": "NO"}):
                with pytest.raises(KafkaError) as caught:
                    Producer(**{**options, **wrong})
                shown.add_error(caught.value)
            with Admin(**options) as admin:
                token = admin.create_delegation_token()
                admin.renew_delegation_token(token.hmac)
                shown.add(token, token.jaas_config(), admin.describe_delegation_token())
            by_token: dict[str, Any] = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": token.jaas_config()}
            use(shown, {**options, **dict.fromkeys(("sasl_username", "sasl_password")), **by_token})
            shown.add(kafka, kafka.metrics())
            stored = kafka.call(lambda broker: list(broker.parts.image.scram.values()))
            shown.add(*stored)
        printed = io.StringIO()
        with redirect_stdout(printed):
            main(["dump-log", str(tmp_path / "data" / "__cluster_metadata-0"), "--records"])
        assert "USER_SCRAM_CREDENTIAL_RECORD" in printed.getvalue()
        assert token.token_id in printed.getvalue()
    shown.add(printed.getvalue(), caplog.text)
    shown.check(TOKEN_KEY, token.hmac.reveal(), repr(b64decode(token.hmac.reveal()))[2:-1])
    shown.check(PASSWORD, WRONG, body(key), body(own_key), body(options["ssl_keystore_key"]))
    for credential in stored:
        for name in ("salt", "stored_key", "server_key"):
            assert pki.base64_text(getattr(credential, name)) not in printed.getvalue()


DYNAMIC = {
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{PASSWORD}";',
    "listener.name.sasl_plaintext.ssl.keystore.password": PASSWORD,
    "listener.name.sasl_plaintext.ssl.keystore.key": PASSWORD,
    "some.plugin.setting": PASSWORD,
}
"""Settings that are changed while the broker runs."""


def change_settings(shown: Shown, admin: Admin) -> None:
    """Change settings, also some that cannot be changed, and list them."""
    for resource in (ConfigResource(ResourceType.BROKER, "1"), ConfigResource(ResourceType.BROKER, "")):
        for name, value in DYNAMIC.items():
            try:
                admin.incremental_alter_configs({resource: AlterConfig.set(name, value)})
            except KafkaError as error:
                shown.add_error(error)
        shown.add(admin.describe_configs([resource], include_documentation=True))


def change_users(shown: Shown, admin: Admin) -> None:
    for iterations in (4096, 1):
        credential = ScramUpsertion("bob", PASSWORD, iterations=iterations)
        try:
            admin.alter_user_scram_credentials([credential])
        except KafkaError as error:
            shown.add_error(error)
        shown.add(credential)


MESSAGES = {
    "PLAIN": [f"\0alice\0{PASSWORD}\0more", f"alice\0{PASSWORD}", f"\0bob\0{PASSWORD}", f"bob\0alice\0{PASSWORD}"],
    "SCRAM-SHA-256": [f"n,,n=alice,r={PASSWORD},,", f"n,,n=a={PASSWORD}", PASSWORD],
}


def send_damaged_logins(address: str) -> None:
    """Send messages that contain a password in the wrong place, and half of one that does not."""
    for mechanism, messages in MESSAGES.items():
        for token in [*(message.encode() for message in messages), PASSWORD.encode() + b"\xff"]:
            for version in (0, 1):
                with Wire(address) as wire:
                    wire.ask(SaslHandshakeRequest(mechanism=mechanism), version)
                    framed = len(token).to_bytes(4) + token
                    request = SaslAuthenticateRequest(auth_bytes=token)
                    wire.write(framed if version == 0 else frame(request, 2))
                    wire.socket.recv(4096)
    with Wire(address) as wire:
        wire.write(frame(SaslAuthenticateRequest(auth_bytes=PASSWORD.encode()), 2)[:-2])
    with Wire(address) as wire:
        wire.write(PASSWORD.encode())
        assert wire.is_closed()


@pytest.mark.refbroker_only
@pytest.mark.not_simulated("runs a command in a process of its own")
def test_no_secret_of_requests_settings_and_faults_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shown = Shown()
    with caplog.at_level(logging.DEBUG):
        with RefBroker(data_dir=tmp_path / "data", sasl={"alice": PASSWORD}) as kafka:
            options = kafka.client_options
            with Admin(**options) as admin:
                change_settings(shown, admin)
                change_users(shown, admin)
            send_damaged_logins(kafka.bootstrap_servers)
            for add in (
                kafka.faults.cut,
                kafka.faults.truncate,
                partial(kafka.faults.fail, error="ILLEGAL_SASL_STATE"),
            ):
                shown.add(add("SaslAuthenticate"))
                with Admin(**options) as admin:
                    try:
                        shown.add(admin.list_topics())
                    except KafkaError as error:
                        shown.add_error(error, locals_too=True)
            shown.add(
                kafka.faults.list(), kafka.metrics(), as_text(kafka.wait_for(lambda broker: broker.collect_metrics()))
            )
            kafka.wait_for(lambda broker: broker.parts.metadata.take_snapshot())
            properties = tmp_path / "client.properties"
            for password in (PASSWORD, WRONG):
                login = f'{PLAIN_MODULE} required username="alice" password="{password}";'
                properties.write_text(
                    f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"
                )
                command = Cli(kafka.bootstrap_servers)
                done = command.run("topics", "list", "--properties", str(properties))
                shown.add(done.stdout.decode(), done.stderr.decode())
                assert (done.returncode == 0) is (password == PASSWORD), done.stderr
        printed = io.StringIO()
        with redirect_stdout(printed):
            for file in sorted((tmp_path / "data" / "__cluster_metadata-0").iterdir()):
                if file.suffix in (".log", ".checkpoint"):
                    main(["dump-log", str(file), "--records"])
    assert printed.getvalue().count("some.plugin.setting") > 1
    shown.add(printed.getvalue(), caplog.text)
    shown.check(PASSWORD, WRONG)
