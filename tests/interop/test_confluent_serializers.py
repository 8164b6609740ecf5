"""confluent-kafka's own serializers in kclient's clients, with the schema registry that confluent-kafka mocks."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from kclient import AsyncConsumer, AsyncProducer, Consumer, Producer
from kclient.errors import SerializationError
from tests.support.patience import ANSWER

for name in ("confluent_kafka", "fastavro", "jsonschema", "authlib"):
    pytest.importorskip(name, reason="the extra registry is not installed")

from confluent_kafka import schema_registry  # noqa: E402
from confluent_kafka.schema_registry import avro, json_schema  # noqa: E402
from confluent_kafka.serialization import (  # noqa: E402
    IntegerDeserializer,
    IntegerSerializer,
    StringDeserializer,
    StringSerializer,
)

AVRO = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "customer", "type": "string"}]}
JSON = {"title": "Order", "type": "object", "properties": {"customer": {"type": "string"}}, "required": ["customer"]}
IN_HEADERS = {"schema.id.serializer": schema_registry.header_schema_id_serializer}
BY_RECORD = {"subject.name.strategy": schema_registry.topic_record_subject_name_strategy}
ORDER = {"customer": "customer-7"}  # AvroDeserializer refuses less than six bytes, also where ids are in headers


@pytest.fixture
def topic() -> str:
    return f"serialized-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def registry() -> Any:
    return schema_registry.SchemaRegistryClient.new_client({"url": f"mock://{uuid.uuid4().hex}"})


def avro_pair(registry: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    return avro.AvroSerializer(registry, json.dumps(AVRO), conf=options), avro.AvroDeserializer(registry)


def json_pair(registry: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    serializer = json_schema.JSONSerializer(json.dumps(JSON), registry, conf=options)
    return serializer, json_schema.JSONDeserializer(json.dumps(JSON), schema_registry_client=registry)


def read_one(bootstrap_servers: str, topic: str, **options: Any) -> Any:
    options["auto_offset_reset"] = "earliest"
    with Consumer(topic, bootstrap_servers=bootstrap_servers, **options) as consumer:
        return next(iter(consumer))


@pytest.mark.parametrize("pair", [avro_pair, json_pair], ids=["avro", "json"])
def test_a_schema_id_before_the_value_comes_back(bootstrap_servers: str, topic: str, registry: Any, pair: Any) -> None:
    serializer, deserializer = pair(registry, {})
    with Producer(bootstrap_servers=bootstrap_servers, value_serializer=serializer) as producer:
        producer.send(topic, ORDER).result(ANSWER)
    assert registry.get_subjects() == [f"{topic}-value"]
    record = read_one(bootstrap_servers, topic)
    assert (record.value[:1], record.headers) == (b"\0", ())
    assert read_one(bootstrap_servers, topic, value_deserializer=deserializer).value == ORDER


@pytest.mark.parametrize("pair", [avro_pair, json_pair], ids=["avro", "json"])
def test_schema_ids_in_headers_go_there_and_back_for_key_and_value(
    bootstrap_servers: str, topic: str, registry: Any, pair: Any
) -> None:
    serializer, deserializer = pair(registry, IN_HEADERS)
    with Producer(
        bootstrap_servers=bootstrap_servers, key_serializer=serializer, value_serializer=serializer
    ) as producer:
        producer.send(topic, ORDER, key=ORDER, headers=[("given", b"1")]).result(ANSWER)
    assert sorted(registry.get_subjects()) == [f"{topic}-key", f"{topic}-value"]
    record = read_one(bootstrap_servers, topic)
    assert [name for name, _ in record.headers] == ["given", "__key_schema_id", "__value_schema_id"]
    assert record.value[:1] != b"\0"
    both = {"key_deserializer": deserializer, "value_deserializer": deserializer}
    record = read_one(bootstrap_servers, topic, **both)
    assert (record.key, record.value) == (ORDER, ORDER)


def test_a_subject_strategy_sees_topic_and_record(bootstrap_servers: str, topic: str, registry: Any) -> None:
    serializer, _ = avro_pair(registry, BY_RECORD)
    with Producer(bootstrap_servers=bootstrap_servers, value_serializer=serializer) as producer:
        producer.send(topic, ORDER).result(ANSWER)
    assert registry.get_subjects() == [f"{topic}-shop.Order"]


async def test_the_async_clients_take_them_as_well(bootstrap_servers: str, topic: str, registry: Any) -> None:
    serializer, deserializer = avro_pair(registry, IN_HEADERS)
    async with AsyncProducer(bootstrap_servers=bootstrap_servers, value_serializer=serializer) as producer:
        await (await producer.send(topic, ORDER))
    async with AsyncConsumer(
        topic,
        bootstrap_servers=bootstrap_servers,
        value_deserializer=deserializer,
        auto_offset_reset="earliest",
    ) as consumer:
        assert (await anext(aiter(consumer))).value == ORDER


def test_a_value_that_does_not_fit_its_schema_fails_its_send(bootstrap_servers: str, topic: str, registry: Any) -> None:
    serializer, _ = avro_pair(registry, {})
    with (
        Producer(bootstrap_servers=bootstrap_servers, value_serializer=serializer) as producer,
        pytest.raises(SerializationError, match="the serializer of the value failed"),
    ):
        producer.send(topic, {"customer": 7})


def test_plain_serializers_keep_null(bootstrap_servers: str, topic: str) -> None:
    with Producer(
        bootstrap_servers=bootstrap_servers, key_serializer=StringSerializer(), value_serializer=IntegerSerializer()
    ) as producer:
        producer.send(topic, None, key="a").result(ANSWER)
    both = {"key_deserializer": StringDeserializer(), "value_deserializer": IntegerDeserializer()}
    record = read_one(bootstrap_servers, topic, **both)
    assert (record.key, record.value) == ("a", None)
