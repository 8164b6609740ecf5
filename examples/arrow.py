"""Send a table and read it back as columns, without an object per record. usage: arrow.py BOOTSTRAP TOPIC"""

import sys

import pyarrow as pa
import pyarrow.compute as pc

from kclient import Consumer, Producer

if len(sys.argv) != 3:
    sys.exit(__doc__)
bootstrap_servers, topic = sys.argv[1:]
# A DataFrame of polars or a result of DuckDB is sent in the same way.
numbers = range(10_000)
orders = pa.table({"customer": [f"customer-{n % 100}" for n in numbers], "order": [f"order {n}" for n in numbers]})

with Producer(bootstrap_servers=bootstrap_servers) as producer:
    sent = producer.send_arrow(topic, orders, key="customer", value="order")
    sent.result(timeout=10)  # raises RowsDeliveryError, which names the rows, if some were not delivered
    print(f"{len(sent)} rows sent")

pieces: list[pa.RecordBatch] = []
with Consumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
    while sum(piece.num_rows for piece in pieces) < len(orders):
        pieces.append(consumer.poll(timeout=10, max_records=10_000).to_arrow(columns=["key", "value"]))
received = pa.Table.from_batches(pieces)
print(f"{received.num_rows} rows received, of {pc.count_distinct(received['key'])} customers")
