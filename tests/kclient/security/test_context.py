"""TLS contexts: stores by their content, settings that contradict each other, versions, ciphers, rotation."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from kclient.config import AdminConfig
from kclient.errors import ConfigError
from kclient.security import stores
from kclient.security.context import ContextSource, make_context, openssl_name
from kclient.security.secret import Secret
from kclient.security.settings import TlsSettings
from tests.support import pki

CHAIN, KEY = pki.certificate()


def settings(**given: Any) -> TlsSettings:
    return TlsSettings(option=str, **given)


def context(**given: Any) -> ssl.SSLContext:
    return make_context(settings(**given), ssl.PROTOCOL_TLS_CLIENT)


def subjects(made: ssl.SSLContext) -> int:
    return len(made.get_ca_certs())


def test_trusted_certificates_are_read_from_text_and_from_files_of_either_format(tmp_path: Path) -> None:
    pem = tmp_path / "ca.pem"
    pem.write_text(pki.authority_pem())
    p12 = pki.write_pkcs12(tmp_path / "trust", None, pki.authority_pem())
    for given in (
        {"truststore_certificates": pki.authority_pem()},
        {"truststore_location": str(pem)},
        {"truststore_location": str(p12), "truststore_password": Secret(pki.PASSWORD)},
    ):
        assert subjects(context(**given)) == 1


def test_a_certificate_and_its_key_are_read_from_text_and_from_files_of_either_format(tmp_path: Path) -> None:
    both, chain, key = (tmp_path / name for name in ("both.pem", "chain.pem", "key.pem"))
    both.write_text(CHAIN + KEY)
    chain.write_text(CHAIN)
    key.write_text(pki.encrypted_key(KEY))
    p12 = pki.write_pkcs12(tmp_path / "own", pki.certificate())
    for given in (
        {"keystore_certificate_chain": CHAIN, "keystore_key": Secret(KEY)},
        {
            "keystore_certificate_chain": str(chain),
            "keystore_key": Secret(str(key)),
            "key_password": Secret(pki.PASSWORD),
        },
        {"keystore_location": str(both)},
        {"keystore_location": str(p12), "keystore_password": Secret(pki.PASSWORD)},
    ):
        assert context(**given).check_hostname


JKS = bytes.fromhex("feedfeed00000002")


@pytest.mark.parametrize(
    ("content", "given", "text"),
    [
        pytest.param(JKS, {}, r"is a JKS store; convert it with: keytool -importkeystore -srckeystore \S+store "
                     r"-destkeystore \S+store\.p12 -deststoretype PKCS12", id="jks"),
        pytest.param(b"hello", {}, "is neither PEM nor PKCS12", id="text"),
        pytest.param(b"\x30\x03\x02\x01\x00", {}, "its password is wrong, or it is damaged", id="der"),
        pytest.param(CHAIN.encode() + b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", {},
                     "the certificate chain and the key cannot be used", id="broken key"),
        pytest.param((CHAIN + pki.encrypted_key(KEY)).encode(), {},
                     "the key could not be decrypted; ssl_key_password is missing", id="no password"),
        pytest.param((CHAIN + pki.encrypted_key(KEY)).encode(), {"key_password": Secret("no")},
                     "the key could not be decrypted; ssl_key_password is wrong", id="wrong password"),
        pytest.param((pki.certificate("other").chain + KEY).encode(), {},
                     "the key does not belong to the certificate", id="other certificate"),
    ],
)  # fmt: skip
def test_a_keystore_that_cannot_be_used_is_named_without_its_content(
    content: bytes, given: dict[str, Any], text: str, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    store.write_bytes(content)
    with pytest.raises(ConfigError, match=text) as caught:
        context(keystore_location=str(store), **given)
    assert str(store) in str(caught.value)
    assert caught.value.__cause__ is None
    assert not [line for line in KEY.splitlines() if len(line) > 40 and line in str(caught.value)]


def test_comments_of_a_truststore_may_have_any_letters(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    pem = f"# Főtanúsítvány\n{pki.authority_pem()}"
    path.write_text(pem, "utf-8")
    assert subjects(context(truststore_location=str(path))) == 1
    assert subjects(context(truststore_certificates=pem)) == 1


def test_a_password_that_would_take_minutes_to_check_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = pki.certificate("client")
    pkcs12 = pki.write_pkcs12(tmp_path / "own.p12", own)
    pem = tmp_path / "own.pem"
    pem.write_text(own.chain + pki.encrypted_key(own.key))
    password = Secret(pki.PASSWORD)
    monkeypatch.setattr(stores, "ITERATIONS_LIMIT", 1000)
    for path in (pkcs12, pem):
        with pytest.raises(ConfigError, match="takes more than 1000 iterations to check") as caught:
            context(keystore_location=str(path), keystore_password=password, key_password=password)
        assert str(path) in str(caught.value)


def test_a_store_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl_truststore_location: could not read .*/none: No such file"):
        context(truststore_location=str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="ssl_keystore_key is neither PEM text nor the path of a file") as caught:
        context(keystore_certificate_chain=CHAIN, keystore_key=Secret("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"))
    assert "MIIE" not in str(caught.value)


def test_a_truststore_without_certificates_is_refused(tmp_path: Path) -> None:
    p12 = pki.write_pkcs12(tmp_path / "own", pki.certificate())
    with pytest.raises(ConfigError, match="contains no trusted certificate"):
        context(truststore_location=str(p12), truststore_password=Secret(pki.PASSWORD))
    with pytest.raises(ConfigError, match="contains no valid certificate in PEM"):
        context(truststore_certificates="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ssl_truststore_location": "a"}, 'ssl_truststore_location has no effect with security_protocol="PLAINTEXT"'),
        ({"ssl_key_password": "a"}, 'ssl_key_password has no effect with security_protocol="PLAINTEXT"'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_of_tls_need_its_protocol(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        AdminConfig(**options)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("ssl_truststore_location", "ssl_truststore_certificates"), "only one of"),
        (("ssl_keystore_location", "ssl_keystore_certificate_chain", "ssl_keystore_key"), "only one of"),
        (("ssl_truststore_password",), "ssl_truststore_password needs ssl_truststore_location"),
        (("ssl_keystore_password",), "ssl_keystore_password needs ssl_keystore_location"),
        (("ssl_keystore_certificate_chain",), "ssl_keystore_certificate_chain needs ssl_keystore_key"),
        (("ssl_keystore_key",), "ssl_keystore_key needs ssl_keystore_certificate_chain"),
        (("ssl_key_password",), "ssl_key_password needs ssl_keystore_location"),
        (("ssl_context", "ssl_truststore_location"), "ssl_truststore_location cannot be set together with ssl_context"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, tuple) else "",
)
def test_options_that_contradict_each_other_are_refused_with_both_names(options: tuple[str, ...], names: str) -> None:
    values: dict[str, Any] = dict.fromkeys(options, "x")
    if "ssl_context" in values:
        values["ssl_context"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(ConfigError, match=names):
        AdminConfig(security_protocol="SSL", **values)


def test_a_context_and_a_password_are_checked_by_type() -> None:
    with pytest.raises(ConfigError, match=r"ssl_context must be an ssl\.SSLContext or None, not 3"):
        AdminConfig(security_protocol="SSL", ssl_context=3)
    with pytest.raises(ConfigError, match="ssl_key_password must be str or Secret, not bytes"):
        AdminConfig(security_protocol="SSL", ssl_key_password=b"secret")  # type: ignore[arg-type]


def test_versions_of_tls_are_those_that_are_enabled() -> None:
    assert context().minimum_version == ssl.TLSVersion.TLSv1_2
    assert context(enabled_protocols=["TLSv1.3"]).minimum_version == ssl.TLSVersion.TLSv1_3
    assert context(enabled_protocols=["TLSv1.2"]).maximum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(ConfigError, match=r"ssl_enabled_protocols: 'TLSv1.1' is not one of TLSv1.2, TLSv1.3"):
        context(enabled_protocols=["TLSv1.1"])
    config = AdminConfig(security_protocol="SSL", ssl_enabled_protocols=" TLSv1.3 , TLSv1.2")
    assert config.tls.enabled_protocols == ["TLSv1.3", "TLSv1.2"]


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_cipher_suites_have_javas_names_or_openssls(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    names = {cipher["name"] for cipher in context(cipher_suites=[java]).get_ciphers()}
    assert openssl in names
    assert len({name for name in names if not name.startswith("TLS_")}) == 1


def test_cipher_suites_decide_the_versions_of_tls() -> None:
    newer = ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"]
    older = ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]
    assert context(cipher_suites=older).maximum_version == ssl.TLSVersion.TLSv1_2
    assert context(cipher_suites=newer).minimum_version == ssl.TLSVersion.TLSv1_3
    assert context(cipher_suites=newer + older).minimum_version == ssl.TLSVersion.TLSv1_2
    with pytest.raises(ConfigError, match=r"of the suites of TLS 1\.3 name all or none"):
        context(cipher_suites=newer[:1])
    with pytest.raises(ConfigError, match="OpenSSL has none of NO_SUCH"):
        context(cipher_suites=["NO_SUCH"])
    with pytest.raises(ConfigError, match=r"ssl_cipher_suites has no suite for ssl_enabled_protocols=TLSv1\.3"):
        context(cipher_suites=older, enabled_protocols=["TLSv1.3"])


def replace(path: Path, text: str) -> None:
    """Write a file as tools that rotate certificates do, with a time of its own."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_changed_files_make_a_new_context(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = tmp_path / "ca.pem"
    store.write_text(pki.authority_pem())
    source = ContextSource(
        lambda: settings(truststore_location=str(store)),
        lambda given: make_context(given, ssl.PROTOCOL_TLS_CLIENT),
        "client 'a'",
    )
    first = source.current()
    assert source.current() is first
    with caplog.at_level(logging.INFO):
        replace(store, pki.authority_pem() + pki.stranger().cert_pem.bytes().decode())
        second = source.current()
        assert (second is first, subjects(second)) == (False, 2)
        replace(store, "half a certificate")
        assert source.current() is second
        store.unlink()
        assert source.current() is second
        replace(store, pki.authority_pem())
        assert subjects(source.current()) == 1
    assert [record.levelname for record in caplog.records] == ["INFO", "ERROR", "ERROR", "INFO"]
    assert "the previous certificates stay" in caplog.records[1].message
