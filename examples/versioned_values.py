"""Values whose schema changes: a header contains the version, and old values are read as new ones.

usage: versioned_values.py BOOTSTRAP TOPIC
"""

import json
import sys
from typing import Any

from kclient import Consumer, Producer
from kclient.serialization import SerializationContext

HEADER = "schema-version"


class Versioned:
    """Serializes as JSON, and adds the version of the schema to the headers."""

    def __init__(self, version: int) -> None:
        self.version = version

    def __call__(self, value: Any, context: SerializationContext) -> bytes:
        context.headers.append((HEADER, str(self.version).encode()))
        return json.dumps(value).encode()


def deserialize(data: bytes, context: SerializationContext) -> Any:
    """Return an order of any version; the first version had a price without a currency."""
    order = json.loads(data)
    if dict(context.headers)[HEADER] == b"1":
        order["price"] = {"amount": order["price"], "currency": "EUR"}
    return order


if len(sys.argv) != 3:
    sys.exit(__doc__)
bootstrap_servers, topic = sys.argv[1:]
prices: list[Any] = [20, {"amount": 30, "currency": "CHF"}]
for version, price in enumerate(prices, 1):
    with Producer(bootstrap_servers=bootstrap_servers, value_serializer=Versioned(version)) as producer:
        producer.send(topic, {"id": version, "price": price}, key=b"customer-7")
with Consumer(
    topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", value_deserializer=deserialize
) as consumer:
    for number, record in enumerate(consumer, 1):
        print(f"order {record.value['id']}: {record.value['price']['amount']} {record.value['price']['currency']}")
        if number == len(prices):
            break
