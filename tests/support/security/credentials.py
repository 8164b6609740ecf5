"""Who the clients of a secured run are, and the settings of brokers that let them in."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from refbroker.security.authorizer import STANDARD_AUTHORIZER
from refbroker.testing.certificates import Certificates
from tests.support import pki

USER = "suite"
PASSWORD = "suite-secret"
MECHANISM, PLAIN = "SCRAM-SHA-256", "PLAIN"
LISTENER = "CLIENTS"
"""The listener of Apache Kafka that clients log in at. Brokers and controllers have listeners of their own."""
_MODULES = "org.apache.kafka.common.security"


@cache
def certificates() -> Certificates:
    """Return the certificates of the run."""
    return Certificates()


def client_options(mechanism: str = MECHANISM) -> dict[str, Any]:
    """Return the options of a client of a broker with these settings, without `bootstrap_servers`."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_certificates": certificates().authority,
        "sasl_mechanism": mechanism,
        "sasl_username": USER,
        "sasl_password": PASSWORD,
    }


def java_properties(directory: Path, mechanism: str = MECHANISM) -> Path:
    """Write the file of options that Kafka's tools need, and return its path."""
    trust, file = directory / "ca.pem", directory / "client.properties"
    trust.write_text(certificates().authority)
    module = f"{_MODULES}.plain.PlainLoginModule" if mechanism == PLAIN else f"{_MODULES}.scram.ScramLoginModule"
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\nssl.truststore.location={trust}\n"
        f'ssl.truststore.type=PEM\nsasl.jaas.config={module} required username="{USER}" password="{PASSWORD}";\n'
    )
    return file


def refbroker_settings(directory: Path) -> dict[str, str]:
    """Return the settings of a refbroker whose clients have to log in, with PLAIN because it has no users of SCRAM.

    Parameters:
        directory: where its certificate goes.
    """
    return {
        "listeners": f"{LISTENER}://127.0.0.1:0",
        "listener.security.protocol.map": f"{LISTENER}:SASL_SSL",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        **_settings(directory),
    }


def kafka_options(directory: Path) -> dict[str, Any]:
    """Return the parameters of a KafkaCluster whose clients have to log in.

    Parameters:
        directory: where its certificate goes.
    """
    return {
        "listeners": {LISTENER: "SASL_SSL"},
        "client_listener": LISTENER,
        "config": _settings(directory),
        "format_options": ["--add-scram", f"{MECHANISM}=[name={USER},password={PASSWORD}]"],
    }


def _settings(directory: Path) -> dict[str, str]:
    prefix = f"listener.name.{LISTENER.lower()}"
    return {
        f"{prefix}.ssl.keystore.location": str(pki.write_pkcs12(directory / "kafka.p12", certificates().broker)),
        f"{prefix}.ssl.keystore.password": pki.PASSWORD,
        f"{prefix}.ssl.keystore.type": "PKCS12",
        f"{prefix}.sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
        f"{prefix}.plain.sasl.jaas.config": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
        # Brokers and controllers connect to each other without credentials.
        "super.users": f"User:{USER};User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
    }
