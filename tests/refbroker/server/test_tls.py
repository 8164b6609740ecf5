"""The TLS contexts of a listener: made once, and again when settings or files change."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from refbroker.config import BrokerConfig
from refbroker.server.tls import TlsListener
from tests.support import pki


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "broker.pem"
    path.write_text("".join(pki.certificate("broker")))
    return path


@pytest.fixture
def config(store: Path) -> BrokerConfig:
    trust = {"ssl.truststore.certificates": pki.authority_pem()}
    return BrokerConfig({"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(store), **trust})


def test_connections_share_a_context_while_nothing_changes(config: BrokerConfig) -> None:
    listener = TlsListener(config, "SSL")
    assert listener.context() is listener.context()


def test_changed_settings_make_a_new_context(config: BrokerConfig) -> None:
    listener = TlsListener(config, "SSL")
    first = listener.context()
    config.set_dynamic({"listener.name.ssl.ssl.client.auth": "required"}, {})
    second = listener.context()
    assert (first.verify_mode, second.verify_mode) == (ssl.CERT_NONE, ssl.CERT_REQUIRED)
    assert listener.context() is second


def test_invalid_settings_are_logged_once_and_keep_the_context(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    listener = TlsListener(config, "SSL")
    first = listener.context()
    config.set_dynamic({"listener.name.ssl.ssl.keystore.location": "/none"}, {})
    assert listener.context() is listener.context() is first
    (line,) = [record.message for record in caplog.records]
    assert line == (
        "listener SSL: the previous certificates stay: ssl.keystore.location: could not read /none: "
        "No such file or directory"
    )
