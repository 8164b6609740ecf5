"""Spark with a broker that asks for TLS, a certificate and a login; no password is shown."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kclient import Admin, NewTopic
from kclient.spark.client_options import ClientOptions
from kclient.spark.options import ReadOptions, WriteOptions
from refbroker.testing import RefBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="wonder";'


@pytest.fixture
def secured() -> Iterator[RefBroker]:
    settings = {"listener.name.sasl_ssl.ssl.client.auth": "required"}
    with RefBroker(tls=True, sasl={"alice": "wonder"}, settings=settings) as broker:
        yield broker


def options_of(broker: RefBroker, directory: Path) -> dict[str, str]:
    """Return the options of Spark's own connector, with files."""
    given = broker.client_options
    ca, own = directory / "ca.pem", directory / "client.pem"
    ca.write_text(given["ssl_truststore_certificates"])
    own.write_text(given["ssl_keystore_certificate_chain"] + given["ssl_keystore_key"])
    return {
        "kafka.bootstrap.servers": given["bootstrap_servers"],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": JAAS,
        "kafka.ssl.truststore.location": str(ca),
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.keystore.location": str(own),
    }


@pytest.mark.spark
@pytest.mark.refbroker_only
@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_driver_and_tasks_log_in(spark: SparkSession, secured: RefBroker, tmp_path: Path, delivery: str) -> None:
    with Admin(**secured.client_options) as admin:
        admin.create_topics(NewTopic("t", num_partitions=2))
    options = options_of(secured, tmp_path)
    rows = spark.createDataFrame([(f"{number}".encode(),) for number in range(20)], "value binary").repartition(2)
    rows.write.format("kclient").options(**options, topic="t", delivery=delivery).mode("append").save()
    frame = spark.read.format("kclient").options(**options, subscribe="t").load()
    assert sorted(int(row.value) for row in frame.select("value").collect()) == list(range(20))


def test_options_show_no_password_and_can_be_pickled() -> None:
    given = {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "wonder",
    }
    read, write = ReadOptions.parse({**given, "subscribe": "t"}), WriteOptions.parse({**given, "topic": "t"})
    for shown in (read, read.for_batch(), read.for_whole_logs(), read.for_stream(), write):
        assert "wonder" not in repr(shown)
        assert "'alice'" in repr(shown)
        assert pickle.loads(pickle.dumps(shown)).client["sasl.password"] == "wonder"
    assert str(ClientOptions({"sasl.jaas.config": JAAS})) == "{'sasl.jaas.config': '[hidden]'}"
