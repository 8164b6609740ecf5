"""Sessions that end (KIP-368): kclient at Apache Kafka, and the Java client at refbroker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kclient import Producer
from refbroker.testing import RefBroker
from tests.interop.authorizing import LISTENER, SETTINGS, AuthorizingKafka
from tests.support import clock
from tests.support.kafka.tools import JavaTools
from tests.support.patience import ANSWER

SESSION_MS = 3000


def test_kclient_keeps_its_connections_to_kafka(needs_kafka: None, tmp_path: Path) -> None:
    settings = {"connections.max.reauth.ms": str(SESSION_MS), "super.users": "User:ANONYMOUS;User:alice"}
    with AuthorizingKafka(tmp_path, {**SETTINGS, **settings}) as kafka:
        options: dict[str, Any] = {
            "bootstrap_servers": kafka.address(listener=LISTENER),
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "alice",
            "sasl_password": "alice",
        }
        with Producer(**options) as producer:
            end = clock.monotonic() + 3 * SESSION_MS / 1000
            while clock.monotonic() < end:
                producer.send("t", b"v").result(ANSWER)
            assert producer.metrics()["connection_creation_total"] <= 2


def test_the_java_producer_works_beyond_its_session_at_refbroker(needs_kafka: None, tmp_path: Path) -> None:
    settings = {"connections.max.reauth.ms": str(SESSION_MS)}
    with RefBroker(sasl={"alice": "wonder"}, settings=settings) as broker:
        broker.create_topic("t")
        config = tmp_path / "client.properties"
        config.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nretries=0\nenable.idempotence=false\n"
            "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" password="wonder";\n'
        )
        printed = JavaTools(broker.bootstrap_servers).run(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", "t", "--num-records", "400", "--record-size", "10", "--throughput", "100"),
            *("--command-config", str(config)),
        )
        assert "400 records sent" in printed
        assert "Exception" not in printed
