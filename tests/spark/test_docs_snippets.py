"""The snippets of the page about PySpark run in the order of the page."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kclient import Admin, Consumer, NewTopic, Producer
from refbroker.testing import RefBroker
from tests.spark.schema_registry import SchemaRegistry
from tests.support.documentation import SPARK, snippets
from tests.support.patience import ANSWER
from tests.support.reading import read, read_all
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Page:
    """The page, whose snippets read and write the topics of a broker.

    Parameters:
        broker: the broker, with the topics of the page.
        checkpoint: replaces the path of the checkpoint.
    """

    def __init__(self, broker: RefBroker, checkpoint: Path) -> None:
        self.broker = broker
        self._checkpoint = checkpoint
        (self.stream, self.register, self.batch, self.stop, self.write, self.values) = snippets(SPARK)

    def run(self, snippet: str, registry: str = "") -> dict[str, Any]:
        """Run a snippet, and return its variables."""
        program = snippet.replace("localhost:9092", self.broker.bootstrap_servers)
        program = program.replace("/tmp/large-orders", str(self._checkpoint)).replace("http://localhost:8081", registry)
        variables: dict[str, Any] = {}
        exec(compile(program, str(SPARK), "exec"), variables)
        return variables

    def send(self, *orders: bytes) -> None:
        with Producer(bootstrap_servers=self.broker.bootstrap_servers) as producer:
            for number, order in enumerate(orders):
                producer.send("orders", order, key=b"%d" % number, partition=0)


@pytest.fixture
def page(refbroker: RefBroker, tmp_path: Path) -> Page:
    with Admin(bootstrap_servers=refbroker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name) for name in ("orders", "large-orders", "ids")])
    return Page(refbroker, tmp_path)


def run_stream(page: Page, spark: SparkSession) -> None:
    # Spark finds the sink of a stream only in threads with an active session, which this sets.
    spark.createDataFrame([], "a int")
    page.run(page.stream)


def interrupt_when_handled(before: Any) -> None:
    """Send SIGINT to this process as soon as it has a handler of its own."""
    wait_until(lambda: signal.getsignal(signal.SIGINT) is not before, ANSWER)
    os.kill(os.getpid(), signal.SIGINT)


def test_the_snippets_run_in_order(page: Page, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    large = json.dumps({"amount": 2000}).encode()
    page.send(json.dumps({"amount": 10}).encode(), large)
    stream = threading.Thread(target=run_stream, args=(page, spark))
    stream.start()
    servers = page.broker.bootstrap_servers
    with Consumer("large-orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in read(consumer, 1)] == [large]
    page.run(page.register)
    page.run(page.batch)
    assert '{"amount": 2000}' in capsys.readouterr().out
    before = signal.getsignal(signal.SIGINT)
    interrupting = threading.Thread(target=interrupt_when_handled, args=(before,))
    interrupting.start()
    try:
        page.run(page.stop)
    finally:
        interrupting.join()
        signal.signal(signal.SIGINT, before)
    stream.join(ANSWER)
    assert not stream.is_alive()
    page.run(page.write)
    assert len(read_all(servers, "ids")) == 1000


def test_the_snippet_of_a_schema_registry_runs(page: Page, spark: SparkSession) -> None:
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro", reason="the extra registry is not installed")
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    fields = [{"name": "state", "type": "string"}, {"name": "amount", "type": "long"}]
    schema = json.dumps({"type": "record", "name": "Order", "fields": fields})
    with SchemaRegistry().serving() as registry, SchemaRegistryClient({"url": registry.url}) as client:
        for subject in ("orders-value", "paid-orders-value"):
            client.register_schema(subject, Schema(schema, "AVRO"))
        serialize = avro.AvroSerializer(client, schema)
        context = SerializationContext("orders", MessageField.VALUE)
        open_order, paid_order = ({"state": state, "amount": 7} for state in ("OPEN", "PAID"))
        page.send(serialize(open_order, context), serialize(paid_order, context))
        (row,) = page.run(page.values, registry.url)["values"].collect()
        deserialize = avro.AvroDeserializer(client)
        assert deserialize(bytes(row["value"]), context) == paid_order
