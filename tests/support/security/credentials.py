"""Who the clients of a secured run are, and the settings of an Apache Kafka that lets them in."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from refbroker.testing.certificates import Certificates
from tests.support import pki

USER = "suite"
PASSWORD = "suite-secret"
MECHANISM = "SCRAM-SHA-256"
LISTENER = "CLIENTS"
"""The listener of Apache Kafka that clients log in at. Brokers and controllers have listeners of their own."""
_MODULES = "org.apache.kafka.common.security"


@cache
def certificates() -> Certificates:
    """Return the certificates of the run."""
    return Certificates()


def client_options() -> dict[str, Any]:
    """Return the options of a client of Apache Kafka, without `bootstrap_servers`."""
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_certificates": certificates().authority,
        "sasl_mechanism": MECHANISM,
        "sasl_username": USER,
        "sasl_password": PASSWORD,
    }


def kafka_options(directory: Path) -> dict[str, Any]:
    """Return the parameters of a KafkaCluster whose clients have to log in.

    Parameters:
        directory: where its certificate goes.
    """
    prefix = f"listener.name.{LISTENER.lower()}"
    config = {
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
    return {
        "listeners": {LISTENER: "SASL_SSL"},
        "client_listener": LISTENER,
        "config": config,
        "format_options": ["--add-scram", f"{MECHANISM}=[name={USER},password={PASSWORD}]"],
    }
