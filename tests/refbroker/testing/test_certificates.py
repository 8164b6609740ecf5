"""The certificates that refbroker makes for tests."""

from __future__ import annotations

from pathlib import Path

from refbroker.testing.certificates import Certificates, write_certificates

PKCS8 = "-----BEGIN PRIVATE KEY-----"
"""How keys of PKCS #8 begin, which are the only ones that Java's clients and brokers read."""


def test_keys_are_those_that_java_reads(tmp_path: Path) -> None:
    made = Certificates()
    assert made.broker.key.startswith(PKCS8)
    assert made.issue().key.startswith(PKCS8)
    write_certificates(tmp_path / "tls")
    for name in ("broker.pem", "client.pem"):
        assert PKCS8 in (tmp_path / "tls" / name).read_text()
