"""The login of a client with GSSAPI: its credentials, errors of Kerberos, and tickets that are renewed."""

from __future__ import annotations

import logging
import math
import random
import re
import sys
from itertools import repeat
from pathlib import Path

import pytest

from kclient.errors import ConfigError, CredentialsUnavailableError, SaslAuthenticationError
from kclient.security.kerberos.login import KerberosLogin
from kclient.security.kerberos.settings import KerberosSettings
from kclient.security.sasl import ExplainedRefusalError
from tests.support.fake_gssapi import FIRST, REALM, FakeGssapi, GSSError

KEYTAB = KerberosSettings("kafka", "alice", "/etc/alice.keytab")
CACHE = KerberosSettings("kafka", ticket_cache="/tmp/cache", renews=True)


class Client:
    """A login, and a clock that the test moves."""

    def __init__(self, settings: KerberosSettings = KEYTAB) -> None:
        self.now = 100.0
        self.login = KerberosLogin(settings, clock=lambda: self.now, rng=random.Random(1))

    def first_message(self, host: str = "broker-1") -> bytes:
        exchange, blocks = self.login.start(host)
        assert blocks
        return next(exchange)


def kerberos_error(number: int, text: str = "it failed") -> GSSError:
    return GSSError(text, minor=FIRST + number)


@pytest.fixture
def kerberos(fake_gssapi: FakeGssapi) -> FakeGssapi:
    fake_gssapi.keytabs["/etc/alice.keytab"] = ["alice"]
    fake_gssapi.tickets["/tmp/cache"] = "carol"
    return fake_gssapi


def test_the_target_is_the_service_on_the_host_of_the_broker(kerberos: FakeGssapi) -> None:
    client = Client()
    client.first_message("broker-1.example.com.")
    client.first_message("broker-2")
    assert kerberos.targets == ["kafka@broker-1.example.com", "kafka@broker-2"]


@pytest.mark.parametrize(("settings", "owner"), [(KEYTAB, "alice"), (CACHE, "carol")], ids=["keytab", "ticket cache"])
def test_credentials_come_from_the_keytab_or_the_ticket_cache(
    kerberos: FakeGssapi, settings: KerberosSettings, owner: str
) -> None:
    assert Client(settings).first_message() == f"AP-REQ {owner}@{REALM}".encode()


def test_clients_with_the_same_keytab_share_their_tickets() -> None:
    assert KEYTAB.store == KEYTAB._replace(service="other").store
    assert KEYTAB.store["ccache"].startswith("MEMORY:")
    assert KEYTAB.store["ccache"] != KEYTAB._replace(principal="bob").store["ccache"]


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (6, "check the principal and the keytab"),
        (7, "check sasl_kerberos_service_name, that the broker's principal has the host"),
        (24, "ktadd"),
        (32, "get another one with kinit"),
        (37, "clocks of this host, the broker and the KDC must agree"),
        (68, r"check the realm, and the sections \[realms\]"),
        (154, r"check the realm, and the sections \[realms\]"),
    ],
)
def test_a_refusal_of_kerberos_says_what_to_check(kerberos: FakeGssapi, number: int, advice: str) -> None:
    kerberos.failures["initiate"] = repeat(kerberos_error(number))
    with pytest.raises(ExplainedRefusalError, match="it failed") as caught:
        Client().first_message()
    assert not caught.value.retriable
    assert re.search(advice, caught.value.advice)


@pytest.mark.parametrize("number", [21, 29, 33, 34, 156, 220])
def test_what_may_pass_is_retriable(kerberos: FakeGssapi, number: int) -> None:
    kerberos.failures["initiate"] = repeat(kerberos_error(number))
    with pytest.raises(CredentialsUnavailableError, match="it failed; ") as caught:
        Client().first_message()
    assert caught.value.retriable


def test_an_error_that_is_not_known_is_a_refusal(kerberos: FakeGssapi) -> None:
    kerberos.failures["initiate"] = repeat(GSSError("no idea", minor=4711))
    with pytest.raises(SaslAuthenticationError, match="no idea") as caught:
        Client().first_message()
    assert not isinstance(caught.value, ExplainedRefusalError)


def test_without_tickets_the_keytab_or_kinit_is_named(kerberos: FakeGssapi) -> None:
    with pytest.raises(ExplainedRefusalError, match=r"/etc/alice\.keytab has no keys of the principal 'bob'"):
        Client(KEYTAB._replace(principal="bob")).first_message()
    with pytest.raises(ExplainedRefusalError) as caught:
        Client(CACHE._replace(ticket_cache="/tmp/none")).first_message()
    assert "get one with kinit" in caught.value.advice


def test_a_kdc_that_does_not_respond_is_asked_again_after_a_second(kerberos: FakeGssapi) -> None:
    kerberos.failures["initiate"] = iter([kerberos_error(156)])
    client = Client()
    with pytest.raises(CredentialsUnavailableError):
        client.first_message()
    with pytest.raises(CredentialsUnavailableError):
        client.first_message()
    client.now += 1.0
    assert client.first_message()


def test_tickets_of_a_keytab_are_not_renewed(kerberos: FakeGssapi) -> None:
    client = Client()
    client.first_message()
    assert client.login.refresh_at == math.inf


def command(folder: Path, script: str) -> str:
    """Return a command that stands in for kinit."""
    path = folder / "kinit"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_tickets_of_a_ticket_cache_are_renewed_by_kinit(kerberos: FakeGssapi, tmp_path: Path) -> None:
    client = Client(CACHE._replace(kinit=command(tmp_path, f'echo "$@" >> {tmp_path}/calls')))
    client.first_message()
    assert 100 + 0.8 * 3600 <= client.login.refresh_at <= 100 + 0.85 * 3600
    client.now = client.login.refresh_at
    client.login.refresh()
    assert (tmp_path / "calls").read_text() == "-R -c /tmp/cache\n"
    assert client.login.refresh_at > client.now


@pytest.mark.parametrize("script", ["echo no KDC >&2; exit 1", None], ids=["fails", "missing"])
def test_a_kinit_that_fails_is_reported(
    kerberos: FakeGssapi, tmp_path: Path, caplog: pytest.LogCaptureFixture, script: str | None
) -> None:
    kinit = str(tmp_path / "none") if script is None else command(tmp_path, script)
    client = Client(CACHE._replace(kinit=kinit))
    client.first_message()
    with caplog.at_level(logging.WARNING):
        client.login.refresh()
    assert "the tickets of the owner of the ticket cache /tmp/cache could not be renewed" in caplog.text
    assert ("no KDC" if script else "No such file") in caplog.text
    assert client.login.refresh_at == math.inf


def test_a_missing_package_is_named_with_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"pip install 'kclient\[gssapi\]'.* libkrb5-dev"):
        KEYTAB.check()
