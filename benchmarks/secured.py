"""The brokers of the TLS part: Apache Kafka and refbroker, each with a plaintext and a TLS listener.

Both show the same certificate, so that both do the same work in a handshake. Elsewhere: brokers without TLS
(`brokers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support import pki
from tests.support.broker_process import BrokerProcess
from tests.support.kafka.cluster import KafkaCluster, free_ports


class SecuredBroker(NamedTuple):
    """A running broker: name, address of each listener, process."""

    name: str
    plaintext: str
    tls: str
    pid: int


class _SecuredKafka(KafkaCluster):
    """Apache Kafka with a TLS listener besides its own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory)
        self.address_of_tls = f"localhost:{free_ports(1)[0]}"
        self._store = pki.write_pkcs12(directory / "kafka.p12", pki.certificate("broker"))

    def _settings(self, node: int) -> Iterator[tuple[str, object]]:
        settings = dict(super()._settings(node))
        settings["listeners"] = f"{settings['listeners']},SSL://{self.address_of_tls}"
        settings["advertised.listeners"] = f"{settings['advertised.listeners']},SSL://{self.address_of_tls}"
        settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL"
        settings |= {
            "ssl.keystore.location": self._store,
            "ssl.keystore.password": pki.PASSWORD,
            "ssl.keystore.type": "PKCS12",
        }
        return iter(settings.items())


def write_authority(directory: Path) -> Path:
    """Write the certificate that clients have to trust, and return its path."""
    path = directory / "ca.pem"
    path.write_text(pki.authority_pem())
    return path


@contextmanager
def secured_brokers(directory: Path) -> Iterator[list[SecuredBroker]]:
    """Start refbroker and Apache Kafka; both run with their defaults."""
    with ExitStack() as stack:
        (directory / "kafka").mkdir()
        kafka = stack.enter_context(_SecuredKafka(directory / "kafka"))
        store = directory / "broker.pem"
        store.write_text("".join(pki.certificate("broker")))
        settings = {
            "group.initial.rebalance.delay.ms": "0",
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://localhost:0",
            "ssl.keystore.location": str(store),
        }
        ours = stack.enter_context(BrokerProcess(directory / "ref", settings=settings))
        (tls,) = (line.rpartition(" on ")[2] for line in ours.lines if line.startswith("refbroker listener SSL"))
        yield [
            SecuredBroker("refbroker", ours.bootstrap_servers, tls, ours.pid),
            SecuredBroker("Apache Kafka", kafka.bootstrap_servers, kafka.address_of_tls, kafka.pid(1)),
        ]
