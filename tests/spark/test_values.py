"""Values with a schema registry, against the bytes that confluent-kafka's own serializers write and read."""

from __future__ import annotations

import datetime
import decimal
import json
import struct
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kclient.spark.errors import SourceError
from kclient.spark.values import ValueSchemaError, from_registry, to_registry
from kclient.spark.values.columns import MAX_MESSAGE_LENGTH, Values, decode, encode
from kclient.spark.values.types import ddl
from tests.spark.schema_registry import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pyarrow = pytest.importorskip("pyarrow")
for name in ("fastavro", "jsonschema", "google.protobuf"):
    pytest.importorskip(name, reason="the extra registry is not installed (make spark installs it)")
schema_registry = pytest.importorskip("confluent_kafka.schema_registry")

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient  # noqa: E402
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer  # noqa: E402
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer  # noqa: E402
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer  # noqa: E402
from confluent_kafka.serialization import MessageField, SerializationContext  # noqa: E402

CONTEXT = SerializationContext("orders", MessageField.VALUE)
SUBJECT = "orders-value"

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "before", "type": ["null", "State"], "default": None},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
                },
            },
        },
        {"name": "token", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
ORDER: dict[str, Any] = {
    "id": 7,
    "placed": datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC),
    "day": datetime.date(2026, 1, 2),
    "amount": decimal.Decimal("12.50"),
    "note": None,
    "state": "PAID",
    "before": "OPEN",
    "tags": {"a": 1, "b": 2},
    "lines": [{"sku": "x", "count": 3}, {"sku": "y", "count": 4}],
    "token": "6f2c8f4e-1e4a-4a5b-9b0a-000000000001",
}
AVRO_DDL = (
    "struct<`id`:bigint,`placed`:timestamp,`day`:date,`amount`:decimal(9,2),`note`:string,`state`:string,"
    "`before`:string,`tags`:map<string,int>,`lines`:array<struct<`sku`:string,`count`:int>>,`token`:string>"
)
JSON: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "definitions": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
        "note": {"type": ["null", "string"]},
        "other": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "lines": {"type": "array", "items": {"$ref": "#/definitions/line"}},
    },
    "required": ["id"],
}
JSON_DDL = (
    "struct<`id`:bigint,`amount`:double,`paid`:boolean,`note`:string,`other`:bigint,`tags`:map<string,string>,"
    "`lines`:array<struct<`sku`:string>>>"
)


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry().serving() as registry:
        yield registry


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": registry.url}) as client:
        yield client


def decoded(values: Values, *data: bytes | None, is_lenient: bool = False) -> list[Any]:
    found: list[Any] = decode(values, pyarrow.array(data, pyarrow.binary()), is_lenient).to_pylist()
    return found


def as_dicts(value: Any) -> Any:
    """Arrow's lists of pairs as dictionaries."""
    return {**value, "tags": dict(value["tags"] or {})}


def test_avro_is_read_as_it_was_written(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, json.dumps(AVRO))(ORDER, CONTEXT)
    values = Values.of(registry.url, SUBJECT, None)
    assert ddl(values.codec().arrow_type()) == AVRO_DDL
    found, null = decoded(values, data, None)
    assert as_dicts(found) == ORDER
    assert null is None


def test_avro_is_written_as_it_is_read(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    client.register_schema(SUBJECT, Schema(json.dumps(AVRO), "AVRO"))
    values = Values.of(registry.url, SUBJECT, None)
    data, null = encode(values, pyarrow.array([ORDER, None], values.codec().arrow_type())).to_pylist()
    found = AvroDeserializer(client)(data, CONTEXT)
    assert {**found, "token": str(found["token"])} == ORDER
    assert null is None


def test_a_value_of_an_older_schema_gets_the_defaults_of_the_newer_one(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}, {"name": "gone", "type": "string"}]}
    added = {"name": "added", "type": "string", "default": "none"}
    new = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, added]}
    first = AvroSerializer(client, json.dumps(old))({"n": 1, "gone": "x"}, CONTEXT)
    second = AvroSerializer(client, json.dumps(new))({"n": 2, "added": "y"}, CONTEXT)
    assert first[:5] != second[:5]
    latest, before = Values.of(registry.url, SUBJECT, None), Values.of(registry.url, SUBJECT, 1)
    assert decoded(latest, first, second) == [{"n": 1, "added": "none"}, {"n": 2, "added": "y"}]
    assert decoded(before, first) == [{"n": 1, "gone": "x"}]


def test_avro_that_does_not_fit_the_column_is_an_error_or_null(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    wide = json.loads(json.dumps(AVRO).replace('"precision": 9', '"precision": 20'))
    data = AvroSerializer(client, json.dumps(AVRO))(ORDER, CONTEXT)
    large = AvroSerializer(client, json.dumps(wide))({**ORDER, "amount": decimal.Decimal("123456789.01")}, CONTEXT)
    values = Values.of(registry.url, SUBJECT, 1)
    with pytest.raises(ValueSchemaError, match="was written with schema 2 and cannot be decoded"):
        decoded(values, data, large)
    first, second = decoded(values, data, large, is_lenient=True)
    assert first is not None
    assert second is None


def test_schemas_are_fetched_once(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, json.dumps(AVRO))(ORDER, CONTEXT)
    values = Values.of(registry.url, SUBJECT, None)
    decoded(values, data)
    before = len(registry.asked)
    for _ in range(3):
        decoded(values, *[data] * 100)
    assert len(registry.asked) == before


def test_a_schema_may_refer_to_others(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    inner = {"type": "record", "name": "shop.Inner", "fields": [{"name": "n", "type": "int"}]}
    outer = {"type": "record", "name": "shop.Outer", "fields": [{"name": "inner", "type": "shop.Inner"}]}
    client.register_schema("inner", Schema(json.dumps(inner), "AVRO"))
    reference = schema_registry.SchemaReference("shop.Inner", "inner", 1)
    client.register_schema(SUBJECT, Schema(json.dumps(outer), "AVRO", [reference]))
    values = Values.of(registry.url, SUBJECT, None)
    rows = [{"inner": {"n": 5}}]
    assert decoded(values, *encode(values, pyarrow.array(rows, values.codec().arrow_type())).to_pylist()) == rows


def test_a_schema_whose_reference_is_deleted_is_an_error_that_names_it(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    inner = {"type": "record", "name": "shop.Inner", "fields": [{"name": "n", "type": "int"}]}
    outer = {"type": "record", "name": "R", "fields": [{"name": "inner", "type": "shop.Inner"}]}
    plain = {"type": "record", "name": "R", "fields": []}
    client.register_schema("inner", Schema(json.dumps(inner), "AVRO"))
    reference = schema_registry.SchemaReference("shop.Inner", "inner", 1)
    schema_id = client.register_schema(SUBJECT, Schema(json.dumps(outer), "AVRO", [reference]))
    client.register_schema(SUBJECT, Schema(json.dumps(plain), "AVRO"))
    registry.forget("inner")
    with pytest.raises(ValueSchemaError, match=r"has no version 1 of 'inner', to which a schema refers"):
        Values.of(registry.url, SUBJECT, 1).codec()
    values, data = Values.of(registry.url, SUBJECT, None), struct.pack(">bi", 0, schema_id)
    with pytest.raises(ValueSchemaError, match=r"bytes as 'orders-value': .* no version 1 of 'inner'"):
        decoded(values, data)
    before = len(registry.asked)
    assert decoded(values, *[data] * 100, is_lenient=True) == [None] * 100
    assert len(registry.asked) <= before + 1


def test_json_goes_both_ways(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    order = {"id": 1, "amount": 2.5, "paid": True, "tags": {"a": "b"}, "lines": [{"sku": "x"}]}
    data = JSONSerializer(json.dumps(JSON), client)({**order, "unknown": 1}, CONTEXT)
    values = Values.of(registry.url, SUBJECT, None)
    assert ddl(values.codec().arrow_type()) == JSON_DDL
    (found,) = decoded(values, data)
    assert as_dicts(found) == {**order, "note": None, "other": None}
    (written,) = encode(values, pyarrow.array([found], values.codec().arrow_type())).to_pylist()
    assert JSONDeserializer(json.dumps(JSON), schema_registry_client=client)(written, CONTEXT) == order
    with pytest.raises(
        ValueSchemaError, match="row 0 does not match version 1 of 'orders-value': 0 is less than the min"
    ):
        encode(values, pyarrow.array([{"id": 0}], values.codec().arrow_type()))


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"id": "one"}, "got `str` - at `$.id`"),
        ({"id": 1.5}, "multiple of 1.0 - at `$.id`"),
        ({"id": 2**63}, "at `$.id`"),
        ({"id": 1, "lines": "none"}, "got `str` - at `$.lines`"),
        ({"id": 1, "lines": [[]]}, "got `array` - at `$.lines[0]`"),
        ({"id": 1, "note": 5}, "got `int` - at `$.note`"),
        ([], "Expected `object | null`, got `array`"),
    ],
    ids=["no number", "no integer", "too large", "no list", "no object in a list", "no string", "no object"],
)
def test_json_that_does_not_fit_the_column_is_an_error_or_null(
    registry: SchemaRegistry, client: SchemaRegistryClient, order: Any, said: str
) -> None:
    rows = ({"id": 1.0, "lines": [{"sku": "x"}]}, order)
    good, bad = (struct.pack(">bi", 0, 1) + json.dumps(each).encode() for each in rows)
    client.register_schema(SUBJECT, Schema(json.dumps(JSON), "JSON"))
    values = Values.of(registry.url, SUBJECT, None)
    what = f"cannot decode a value of {len(bad)} bytes as 'orders-value': it was written with schema 1 and cannot be"
    with pytest.raises(ValueSchemaError, match=what) as raised:
        decoded(values, None, good, bad)
    assert said in str(raised.value)
    assert "on_error='null'" in str(raised.value)
    first, second = decoded(values, good, bad, is_lenient=True)
    assert first["id"] == 1
    assert second is None


def message_class() -> Any:
    """A message of Protobuf as protoc would make it: the second of its file, with all that a field can be."""
    from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
    from google.protobuf.message_factory import GetMessageClass

    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    file.message_type.add(name="First").field.add(name="x", number=1, type=5, label=1)
    state = file.enum_type.add(name="State")
    state.value.add(name="OPEN", number=0)
    state.value.add(name="PAID", number=1)
    order = file.message_type.add(name="Order")
    tags = order.nested_type.add(name="TagsEntry")
    tags.options.map_entry = True
    tags.field.add(name="key", number=1, type=9, label=1)
    tags.field.add(name="value", number=2, type=5, label=1)
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=9, label=1)
    order.field.add(name="id", number=1, type=3, label=1)
    order.field.add(name="big", number=2, type=4, label=1)
    order.field.add(name="note", number=3, type=9, label=1, proto3_optional=True, oneof_index=0)
    order.oneof_decl.add(name="_note")
    order.field.add(name="state", number=4, type=14, label=1, type_name=".shop.State")
    order.field.add(name="tags", number=5, type=11, label=3, type_name=".shop.Order.TagsEntry")
    order.field.add(name="lines", number=6, type=11, label=3, type_name=".shop.Order.Line")
    order.field.add(name="placed", number=7, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="first", number=8, type=11, label=1, type_name=".shop.First")
    order.field.add(name="data", number=9, type=12, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


PROTOBUF_DDL = (
    "struct<`id`:bigint,`big`:decimal(20,0),`note`:string,`state`:string,`tags`:map<string,int>,"
    "`lines`:array<struct<`sku`:string>>,`placed`:timestamp,`first`:struct<`x`:int>,`data`:binary>"
)


def test_protobuf_goes_both_ways(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    kind = message_class()
    message = kind(id=5, big=2**64 - 1, state=1, tags={"a": 1}, lines=[{"sku": "x"}], data=b"\0")
    message.placed.FromDatetime(ORDER["placed"])
    data = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(message, CONTEXT)
    values = Values.of(registry.url, SUBJECT, None, "shop.Order")
    assert ddl(values.codec().arrow_type()) == PROTOBUF_DDL
    (found,) = decoded(values, data)
    order = {
        "id": 5,
        "big": decimal.Decimal(2**64 - 1),
        "note": None,
        "state": "PAID",
        "tags": {"a": 1},
        "lines": [{"sku": "x"}],
        "placed": ORDER["placed"],
        "first": None,
        "data": b"\0",
    }
    assert as_dicts(found) == order
    (written,) = encode(values, pyarrow.array([found], values.codec().arrow_type())).to_pylist()
    assert ProtobufDeserializer(kind, {"use.deprecated.format": False}, client)(written, CONTEXT) == message
    with pytest.raises(ValueSchemaError, match=r"state cannot be 'LOST'; there are OPEN, PAID"):
        encode(values, pyarrow.array([{**order, "state": "LOST"}], values.codec().arrow_type()))
    with pytest.raises(ValueSchemaError, match=r"no message 'shop.Bill'; there are shop.First, shop.Order"):
        Values.of(registry.url, SUBJECT, None, "shop.Bill").codec()


def test_the_place_of_a_message_that_makes_no_sense_is_an_error(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    kind = message_class()
    data = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(kind(id=1), CONTEXT)
    values = Values.of(registry.url, SUBJECT, None, "shop.Order")
    for place in (b"", b"\x80", b"\x80" * 9, b"\x02\x10", b"\x01", b"\x7e", b"\x02"):
        with pytest.raises(ValueSchemaError, match="cannot be decoded"):
            decoded(values, data[:5] + place)


def test_another_message_of_protobuf_is_an_error_or_null(
    registry: SchemaRegistry, client: SchemaRegistryClient
) -> None:
    kind = message_class()
    data = ProtobufSerializer(kind, client, {"use.deprecated.format": False})(kind(id=1), CONTEXT)
    assert decoded(Values.of(registry.url, SUBJECT, None, "shop.Order"), data)[0]["id"] == 1
    first = Values.of(registry.url, SUBJECT, None)
    with pytest.raises(ValueSchemaError, match=r"it is a shop\.Order, and the column has type shop\.First"):
        decoded(first, data)
    assert decoded(first, data, is_lenient=True) == [None]


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF"])
def test_a_schema_of_another_format_is_an_error_or_null(
    registry: SchemaRegistry, client: SchemaRegistryClient, kind: str
) -> None:
    if kind == "AVRO":
        client.register_schema(SUBJECT, Schema(json.dumps(AVRO), "AVRO"))
    else:
        made = message_class()
        ProtobufSerializer(made, client, {"use.deprecated.format": False})(made(id=1), CONTEXT)
    other = client.register_schema("other", Schema(json.dumps(JSON), "JSON"))
    values, data = Values.of(registry.url, SUBJECT, None), struct.pack(">bi", 0, other) + b"{}"
    with pytest.raises(ValueSchemaError, match=f"schema {other} is of type JSON, not {kind}"):
        decoded(values, data)
    assert decoded(values, data, is_lenient=True) == [None]


def test_an_unknown_schema_is_requested_once_in_a_batch(registry: SchemaRegistry, client: SchemaRegistryClient) -> None:
    data = AvroSerializer(client, json.dumps(AVRO))(ORDER, CONTEXT)
    values = Values.of(registry.url, SUBJECT, None)
    unknown = struct.pack(">bi", 0, 99) + data[5:]
    decoded(values, data)
    before = len(registry.asked)
    found = decoded(values, *[unknown] * 1000, data, is_lenient=True)
    assert found[:1000] == [None] * 1000
    assert found[1000] is not None
    assert len(registry.asked) == before + 1
    # It may be there by the next one.
    for number in range(99):
        client.register_schema(f"other{number}", Schema(json.dumps({"type": "fixed", "size": 1, "name": f"F{number}"})))
    assert decoded(values, unknown, is_lenient=True) == [None]
    assert f"/schemas/ids/{99}" in registry.asked[before + 1 :]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "does not begin with 0 and the id"),
        (b"plain text", "does not begin with 0 and the id"),
        (struct.pack(">bi", 0, 99) + b"x", "has no schema 99"),
        (struct.pack(">bi", 0, 1), "was written with schema 1 and cannot be decoded"),
    ],
    ids=["empty", "not framed", "unknown schema", "cut off"],
)
def test_what_cannot_be_decoded_is_an_error_or_null(
    registry: SchemaRegistry, client: SchemaRegistryClient, data: bytes, said: str
) -> None:
    good = AvroSerializer(client, json.dumps(AVRO))(ORDER, CONTEXT)
    values = Values.of(registry.url, SUBJECT, None)
    with pytest.raises(ValueSchemaError, match=said):
        decoded(values, good, data)
    first, second = decoded(values, good, data, is_lenient=True)
    assert first is not None
    assert second is None


def test_a_registry_that_does_not_answer_is_no_fault_of_the_values() -> None:
    with SchemaRegistry().serving() as passing, SchemaRegistryClient({"url": passing.url}) as client:
        data = AvroSerializer(client, json.dumps(AVRO))(ORDER, CONTEXT)
        silent = {"url": passing.url, "max.retries": 0}
        values = Values.of(silent, SUBJECT, None)
        values.codec()
    with pytest.raises(SourceError, match=r"the registry on http://127.0.0.1:.* does not answer") as raised:
        decoded(values, data[:1] + struct.pack(">i", 77) + data[5:], is_lenient=True)
    assert not isinstance(raised.value, ValueSchemaError)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://user:se%2Fcret@127.0.0.1:1", "the registry on http://127.0.0.1:1 does not answer"),
        ("http://user:sec@ret@127.0.0.1:1", "the registry on http://127.0.0.1:1 "),
        (
            "http://user:secret@127.0.0.1:1,http://user:secret@127.0.0.1:2",
            "the registry on http://127.0.0.1:1,http://127.0.0.1:2 does not answer",
        ),
        ("htp://user:secret@127.0.0.1:1", "client cannot be created: Invalid url htp://127.0.0.1:1"),
        pytest.param(
            f"htp://user:{'secret' * MAX_MESSAGE_LENGTH}@127.0.0.1:1",
            "client cannot be created: Invalid url htp://127.0.0.1:1",
            id="long password",
        ),
    ],
)
def test_an_error_does_not_tell_the_password_of_the_registry(url: str, said: str) -> None:
    with pytest.raises(SourceError, match=said) as raised:
        Values.of({"url": url, "max.retries": 0}, SUBJECT, None)
    assert "user" not in str(raised.value)
    assert "ret" not in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "kind", "said"),
    [
        (["int", "string"], "AVRO", "no type for a union of several types"),
        (
            {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]},
            "AVRO",
            "record R contains itself",
        ),
        ({"type": ["string", "integer"]}, "JSON", "no single type for this schema"),
        ({"type": "object"}, "JSON", "does not define what this object contains"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "JSON", "# contains itself"),
        ({"$ref": "#/nowhere"}, "JSON", "which does not exist"),
    ],
)
def test_a_schema_without_a_type_in_spark_is_refused(
    registry: SchemaRegistry, client: SchemaRegistryClient, schema: Any, kind: str, said: str
) -> None:
    client.register_schema(SUBJECT, Schema(json.dumps(schema), kind))
    with pytest.raises(ValueSchemaError, match=said):
        Values.of(registry.url, SUBJECT, None).codec().arrow_type()


def test_a_subject_that_is_not_there_is_named(registry: SchemaRegistry) -> None:
    with pytest.raises(ValueSchemaError, match=f"the registry on {registry.url} has no subject 'nothing'"):
        Values.of(registry.url, "nothing", None)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_columns_of_spark_go_there_and_back(
    spark: SparkSession, registry: SchemaRegistry, client: SchemaRegistryClient, kind: str
) -> None:
    named: dict[str, Any] = {}
    if kind == "avro":
        data, told = AvroSerializer(client, json.dumps(AVRO))(ORDER, CONTEXT), AVRO_DDL
    elif kind == "json":
        order = {"id": 5, "tags": {"a": "1"}, "lines": [{"sku": "x"}]}
        compact = partial(json.dumps, separators=(",", ":"))
        data, told = JSONSerializer(json.dumps(JSON), client, json_encode=compact)(order, CONTEXT), JSON_DDL
    else:
        made = message_class()
        data = ProtobufSerializer(made, client, {"use.deprecated.format": False})(
            made(id=5, tags={"a": 1}, lines=[{"sku": "x"}], placed={"seconds": 1}), CONTEXT
        )
        named, told = {"message": "shop.Order"}, PROTOBUF_DDL
    rows = spark.createDataFrame([(bytearray(data),), (None,)], "value binary")
    orders = rows.select(from_registry("value", subject=SUBJECT, registry=registry.url, **named).alias("order"))
    assert orders.schema["order"].dataType.simpleString() == told.replace("`", "")
    first, second = orders.collect()
    assert first.order.lines[0].sku == "x"
    assert int(first.order.tags["a"]) == 1
    assert second.order is None
    again = orders.select(
        to_registry("order", subject=SUBJECT, registry=registry.url, **named).alias("value")
    ).collect()
    assert [row.value and bytes(row.value) for row in again] == [data, None]
