"""A search of everything that a run shows for the passwords, keys and tokens that it used."""

from __future__ import annotations

import io
import logging
import pickle
import traceback
from base64 import b64decode
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from kclient import Admin, Consumer, Producer
from kclient.admin import ConfigResource, ResourceType
from kclient.errors import KafkaError
from refbroker.__main__ import main
from refbroker.testing import RefBroker
from tests.support import pki
from tests.support.patience import ANSWER

PASSWORD = "correct-horse-battery"
WRONG = "wrong-horse-battery"
TOKEN_KEY = "battery-of-the-brokers"


class Shown:
    """What a run has shown."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, *values: object) -> None:
        self.texts += [text for value in values for text in (str(value), repr(value))]

    def add_error(self, error: BaseException) -> None:
        self.add(error, "".join(traceback.format_exception(error)), pickle.loads(pickle.dumps(error)))

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
            shown.add_error(error)
        shown.add(producer, admin, producer.metrics(), producer.health(), admin.metrics(), admin.health())
    with Consumer("t", group_id="g", auto_offset_reset="earliest", **options) as consumer:
        try:
            shown.add(consumer.poll(ANSWER))
        except KafkaError as error:
            shown.add_error(error)
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
