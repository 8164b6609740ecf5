"""refbroker brokers in a cluster of Apache Kafka: under its controllers, beside its brokers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from kclient.protocol import Message
from kclient.protocol.messages.records.metadata_log import RegisterBrokerRecord, RegisterControllerRecord
from kclient.records import read_batches
from refbroker.metadata.image import ClusterImage
from refbroker.metadata.image_records import image_records
from refbroker.metadata.replay import MetadataBatch, Replay
from refbroker.testing import RefBroker
from refbroker.testing.certificates import Certificates
from tests.support import pki
from tests.support.kafka.cluster import CONTROLLER, KafkaCluster
from tests.support.patience import PROCESS

JOINABLE = ("--feature", "share.version=0", "--feature", "streams.version=0")
"""Options of kafka-storage format for a cluster that a broker without share and streams groups can join."""


def member_settings(cluster: KafkaCluster, node: int) -> dict[str, str]:
    """Return the settings of a broker under the controllers of a cluster."""
    voters = ",".join(f"{each}@{cluster.address(each, CONTROLLER)}" for each in cluster.node_ids)
    return {
        "process.roles": "broker",
        "node.id": str(node),
        "controller.quorum.voters": voters,
        "controller.listener.names": CONTROLLER,
        "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        # A stopped broker is noticed soon, as those of the cluster.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
    }


def member_of(
    cluster: KafkaCluster, directory: Path, node: int = 11, settings: Mapping[str, str] | None = None
) -> RefBroker:
    """Return a broker of this process that joins a cluster when it is started; its data directory is formatted."""
    format_member(cluster, directory, node)
    return RefBroker(data_dir=directory, settings={**member_settings(cluster, node), **(settings or {})})


def format_member(cluster: KafkaCluster, directory: Path, node: int) -> None:
    """Format the data directory of a broker."""
    command = [sys.executable, "-m", "refbroker", "format", "--cluster-id", cluster.cluster_id]
    command += ["--node-id", str(node), "--data-dir", str(directory), "--ignore-formatted"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS)
    assert done.returncode == 0, done.stdout + done.stderr


def image_of(broker: RefBroker) -> tuple[int, list[str]]:
    """Return the next offset of a broker's image, and its records as text, sorted."""
    return broker.call(lambda kafka: (kafka.parts.image.next_offset, _shown(kafka.parts.image)))


def replay_of(directory: Path, next_offset: int) -> list[str]:
    """Return what the log of a controller amounts to before an offset, as `image_of` does.

    Parameters:
        directory: its data directory, from whose log nothing has been deleted.
    """
    found, records = replayed(directory, next_offset)
    assert found == next_offset
    return sorted(map(_text, records))


def replayed(directory: Path, next_offset: int | None = None) -> tuple[int, list[Message]]:
    """Return the next offset after a replay of the log of a controller, and the records of the image.

    Parameters:
        next_offset: where to stop; by default at the log end.
    """
    image = ClusterImage()
    replay = Replay(image)
    for segment in sorted((directory / "__cluster_metadata-0").glob("*.log")):
        for batch in read_batches(segment.read_bytes()):
            if next_offset is None or batch.base_offset < next_offset:
                replay.apply(MetadataBatch.decode(batch))
    return replay.next_offset, list(image_records(image))


def _shown(image: ClusterImage) -> list[str]:
    return sorted(map(_text, image_records(image)))


def _text(record: Message) -> str:
    if isinstance(record, (RegisterBrokerRecord, RegisterControllerRecord)):
        # Kafka writes these into a snapshot in another order.
        points, features = sorted(record.end_points, key=repr), sorted(record.features, key=repr)
        record = msgspec.structs.replace(record, end_points=points, features=features)
    return repr(record)


def snapshots_in(directory: Path) -> list[str]:
    """Return the names of the snapshots of the metadata in a data directory."""
    return sorted(path.name for path in (directory / "__cluster_metadata-0").glob("*.checkpoint"))


class SecuredControllers(NamedTuple):
    """The settings of a cluster whose controllers' listener has SASL_SSL.

    Attributes:
        kafka: of Kafka's nodes.
        member: of a broker that joins, beside `member_settings`.
        wrong_password: replaces the login of the broker.
    """

    kafka: dict[str, str]
    member: dict[str, str]
    wrong_password: dict[str, str]


def secured(directory: Path) -> SecuredControllers:
    """Return the settings for a listener CONTROLLER with PLAIN over TLS, which requires certificates of clients.

    Parameters:
        directory: where the stores of certificates are written.
    """
    prefix = f"listener.name.{CONTROLLER.lower()}"
    certificates = Certificates()
    # Java does not trust what is in a PKCS12 store without an attribute of its own.
    trusted = directory / "trusted.pem"
    trusted.write_text(certificates.authority)
    stores = {
        f"{prefix}.ssl.keystore.location": str(pki.write_pkcs12(directory / "own.p12", certificates.broker)),
        f"{prefix}.ssl.keystore.password": pki.PASSWORD,
        f"{prefix}.ssl.keystore.type": "PKCS12",
        f"{prefix}.ssl.truststore.location": str(trusted),
        f"{prefix}.ssl.truststore.type": "PEM",
    }
    shared = {
        "listener.security.protocol.map": f"{CONTROLLER}:SASL_SSL,PLAINTEXT:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"{prefix}.ssl.client.auth": "required",
        **stores,
    }
    jaas = f"{prefix}.plain.sasl.jaas.config"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    login = f'{module} username="broker" password="secret" user_broker="secret";'
    return SecuredControllers(
        {**shared, jaas: login, "super.users": "User:broker"},
        {**shared, jaas: login},
        {jaas: login.replace("secret", "guess"), "initial.broker.registration.timeout.ms": "2000"},
    )
