"""Whose tickets a client uses, by its options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kclient.config import AdminConfig, ConsumerConfig
from kclient.errors import ConfigError
from kclient.security.kerberos.settings import KerberosSettings

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
pytestmark = pytest.mark.usefixtures("fake_gssapi")


@pytest.fixture
def keytab(tmp_path: Path) -> Path:
    path = tmp_path / "alice.keytab"
    path.write_bytes(b"\x05\x02")
    return path


def settings(**options: Any) -> KerberosSettings:
    options.setdefault("sasl_kerberos_service_name", "kafka")
    config = AdminConfig(security_protocol="SASL_PLAINTEXT", sasl_mechanism="GSSAPI", **options)
    assert isinstance(config.sasl, KerberosSettings)
    return config.sasl


def test_without_a_jaas_config_the_default_ticket_cache_is_used() -> None:
    found = settings()
    assert (found.principal, found.keytab, found.store, found.renews) == (None, None, {}, False)


def test_a_jaas_config_names_the_keytab(keytab: Path) -> None:
    jaas = f'{MODULE} useKeyTab=true storeKey=true keyTab="{keytab}" principal="alice@R" serviceName=kafka;'
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.jaas.config": jaas}
    found = ConsumerConfig.from_properties(properties).sasl
    assert isinstance(found, KerberosSettings)
    assert (found.service, found.principal, found.keytab, found.renews) == ("kafka", "alice@R", str(keytab), False)
    assert found.store["client_keytab"] == str(keytab)


def test_a_jaas_config_names_the_ticket_cache() -> None:
    found = settings(
        sasl_jaas_config=f'{MODULE} useTicketCache="true" ticketCache="/tmp/cache";',
        sasl_kerberos_kinit_cmd="/opt/kinit",
        sasl_kerberos_ticket_renew_window_factor=0.5,
        sasl_kerberos_ticket_renew_jitter=0.0,
        sasl_kerberos_min_time_before_relogin=2000,
    )
    assert (found.store, found.renews, found.kinit) == ({"ccache": "/tmp/cache"}, True, "/opt/kinit")
    assert found.policy[:4] == (0.5, 0.0, 2.0, 0.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sasl_kerberos_service_name": None}, "needs sasl_kerberos_service_name, such as"),
        ({"sasl_jaas_config": f"{MODULE} useTicketCache=true serviceName=other;"},
         "serviceName in sasl_jaas_config is 'other', and sasl_kerberos_service_name is 'kafka'"),
        ({"sasl_jaas_config": f"{MODULE} useKeyTab=true;"}, "useKeyTab in sasl_jaas_config needs keyTab"),
        ({"sasl_jaas_config": f"{MODULE} keyTab=x;"}, "needs useKeyTab=\"true\" with keyTab, or useTicketCache"),
        ({"sasl_jaas_config": f"{MODULE} useKeyTab=true keyTab='/no/such/file';"},
         "keyTab in sasl_jaas_config: could not read /no/such/file"),
        ({"sasl_jaas_config": f"{MODULE} useKeyTab=true keyTab='{__file__}';"}, "test_settings.py is not a keytab"),
        ({"sasl_jaas_config": "x.PlainLoginModule required username=a password=b;"},
         "has PlainLoginModule; sasl_mechanism=GSSAPI needs Krb5LoginModule"),
        ({"sasl_username": "alice"}, "sasl_username has no effect with sasl_mechanism=GSSAPI"),
        ({"sasl_oauthbearer_scope": "kafka"}, "sasl_oauthbearer_scope has no effect with sasl_mechanism=GSSAPI"),
    ],
    ids=["no service", "two services", "no keytab", "neither", "unreadable", "content", "module", "user", "token"],
)  # fmt: skip
def test_settings_that_cannot_log_in_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        settings(**options)


@pytest.mark.parametrize(
    ("found", "who"),
    [
        (KerberosSettings("kafka", "alice", "/k"), "the principal 'alice'"),
        (KerberosSettings("kafka", None, "/k"), "the first principal of /k"),
        (KerberosSettings("kafka", None, None, "/c"), "the owner of the ticket cache /c"),
        (KerberosSettings("kafka"), "the owner of the ticket cache"),
    ],
    ids=["principal", "keytab", "ticket cache", "default"],
)
def test_errors_name_who_logs_in(found: KerberosSettings, who: str) -> None:
    assert found.who == who


def test_other_clients_names_point_to_the_jaas_config() -> None:
    with pytest.raises(ConfigError, match='Krb5LoginModule required useKeyTab=true keyTab="PATH"'):
        AdminConfig.from_options({"sasl_kerberos_keytab": "/k"})


def test_the_package_is_not_imported_for_other_mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    AdminConfig(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_username="a", sasl_password="b")
