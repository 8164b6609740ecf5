"""An application's test with a broker, without Docker or a JVM: `pytest examples/test_with_fixture.py`.

The `refbroker` fixture of the package is a new broker for each test, with a free port and a temporary directory.
"""

from kclient import Consumer, Producer
from refbroker.testing import RefBroker


def shout(bootstrap_servers: str, source: str, target: str, count: int) -> None:
    """Read `count` records and write them in capitals: the application under test."""
    with (
        Consumer(source, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer,
        Producer(bootstrap_servers=bootstrap_servers) as producer,
    ):
        for _, record in zip(range(count), consumer, strict=False):
            producer.send(target, record.value.upper())


def test_what_goes_in_comes_out_in_capitals(refbroker: RefBroker) -> None:
    with Producer(bootstrap_servers=refbroker.bootstrap_servers) as producer:
        producer.send("in", b"hello")
        producer.send("in", b"world")

    shout(refbroker.bootstrap_servers, "in", "out", count=2)

    with Consumer("out", bootstrap_servers=refbroker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        assert [record.value for _, record in zip(range(2), consumer, strict=False)] == [b"HELLO", b"WORLD"]
