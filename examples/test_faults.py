"""How a test controls faults, time and the disk: `pytest examples/test_faults.py`.

One example for each kind of fault, with the `refbroker` fixture of the package. The first half is about requests, the
second about clock, disk and leaders, and the last test about a broker in another process.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kclient import Consumer, Producer
from kclient.errors import CorruptRecordError, TopicAuthorizationError
from refbroker.testing import RefBroker, RemoteControl, SimulatedDisk


@pytest.fixture
def refbroker_options() -> dict[str, Any]:
    """Give every broker of this module a simulated disk."""
    return {"disk": SimulatedDisk()}


@pytest.fixture
def producer(refbroker: RefBroker) -> Iterator[Producer]:
    refbroker.create_topic("orders", 2)
    with Producer(bootstrap_servers=refbroker.bootstrap_servers, request_timeout_ms=500) as producer:
        producer.send("orders", b"0", partition=0).result(timeout=10)
        yield producer


def stored(broker: RefBroker) -> list[bytes | None]:
    """Return the values in the first partition."""
    expected = broker.log("orders").log_end_offset - broker.log("orders").log_start_offset
    with Consumer("orders", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        return [record.value for _, record in zip(range(expected), consumer, strict=False)]


# Requests


def test_error_for_one_partition(refbroker: RefBroker, producer: Producer) -> None:
    with refbroker.faults.fail(
        "Produce", error="NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0, count=3
    ) as fault:
        producer.send("orders", b"1", partition=0).result(timeout=10)
        assert fault.fired == 3


def test_error_that_no_retry_can_help(refbroker: RefBroker, producer: Producer) -> None:
    refbroker.faults.fail("Produce", TopicAuthorizationError, topic="orders")
    with pytest.raises(TopicAuthorizationError):
        producer.send("orders", b"1").result(timeout=10)


def test_delay_until_the_test_has_seen_enough(refbroker: RefBroker, producer: Producer) -> None:
    with refbroker.faults.delay("Produce") as held:
        future = producer.send("orders", b"1", partition=0)
        held.wait()
        assert not future.done()
    assert future.result(timeout=10).offset == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_answer_that_never_comes(refbroker: RefBroker, producer: Producer, when: Any) -> None:
    with refbroker.faults.drop("Produce", when=when) as fault:
        producer.send("orders", b"1", partition=0).result(timeout=10)
        assert fault.fired == 1
    assert stored(refbroker) == [b"0", b"1"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_connection_that_is_cut(refbroker: RefBroker, producer: Producer, when: Any) -> None:
    with refbroker.faults.cut("Produce", when=when, count=2) as fault:
        producer.send("orders", b"1", partition=0).result(timeout=10)
        assert fault.fired == 2
    assert stored(refbroker) == [b"0", b"1"]


def test_records_that_were_damaged_on_their_way(refbroker: RefBroker, producer: Producer) -> None:
    producer.flush()
    with (
        refbroker.faults.corrupt("Fetch", topic="orders", count=None),
        Consumer("orders", bootstrap_servers=refbroker.bootstrap_servers, auto_offset_reset="earliest") as consumer,
        pytest.raises(CorruptRecordError),
    ):
        next(iter(consumer))


def test_answer_that_ends_in_the_middle(refbroker: RefBroker, producer: Producer) -> None:
    with refbroker.faults.truncate("Fetch") as fault:
        assert stored(refbroker) == [b"0"]
        assert fault.fired == 1


# Clock, disk, leaders


def test_records_that_have_expired(refbroker: RefBroker) -> None:
    refbroker.create_topic("sessions", retention_ms=60_000)
    refbroker.clock.hold()
    with Producer(bootstrap_servers=refbroker.bootstrap_servers) as producer:
        producer.send("sessions", b"v", timestamp=refbroker.clock.now_ms).result(timeout=10)
    refbroker.clock.step(seconds=3600)
    assert refbroker.log("sessions").log_start_offset == 1


def test_records_that_were_compacted(refbroker: RefBroker) -> None:
    refbroker.create_topic("states", cleanup_policy="compact", segment_ms=60_000, min_cleanable_dirty_ratio=0.01)
    refbroker.clock.hold()
    with Producer(bootstrap_servers=refbroker.bootstrap_servers) as producer:
        for value in (b"old", b"new"):
            producer.send("states", value, key=b"k", timestamp=refbroker.clock.now_ms).result(timeout=10)
        refbroker.clock.step(seconds=120)
        producer.send("states", b"v", key=b"other", timestamp=refbroker.clock.now_ms).result(timeout=10)
    refbroker.clock.step(seconds=60)
    with Consumer("states", bootstrap_servers=refbroker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        assert next(iter(consumer)).value == b"new"


def test_power_failure(refbroker: RefBroker) -> None:
    refbroker.create_topic("orders", flush_messages=1)
    with Producer(bootstrap_servers=refbroker.bootstrap_servers) as producer:
        producer.send("orders", b"flushed").result(timeout=10)
    refbroker.lose_power(seed=7)
    refbroker.start()
    assert stored(refbroker) == [b"flushed"]


def test_full_disk(refbroker: RefBroker, producer: Producer) -> None:
    refbroker.disk.fill(bytes_left=0)
    future = producer.send("orders", b"1", partition=0)
    with pytest.raises(TimeoutError):
        future.result(timeout=1)
    refbroker.kill()
    refbroker.disk.heal()
    refbroker.start()
    assert future.result(timeout=30).offset == 1


def test_new_leader(refbroker: RefBroker, producer: Producer) -> None:
    assert refbroker.elect("orders", partition=0) == 1
    producer.send("orders", b"1", partition=0).result(timeout=10)
    assert stored(refbroker) == [b"0", b"1"]


def test_restart_in_the_middle(refbroker: RefBroker, producer: Producer) -> None:
    futures = [producer.send("orders", b"%d" % number, partition=0) for number in range(1, 10)]
    refbroker.restart()
    for future in futures:
        future.result(timeout=30)
    assert stored(refbroker) == [b"%d" % number for number in range(10)]


# Another process


def test_broker_in_another_process(tmp_path: Path) -> None:
    ports = ["--port", "0", "--control-port", "0"]
    command = [sys.executable, "-m", "refbroker", "run", *ports, "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        (url,) = re.findall(r"refbroker control on (\S+)", said)
        control = RemoteControl(url)
        with Producer(bootstrap_servers=control.bootstrap_servers) as producer:
            producer.send("orders", b"0").result(timeout=10)
            with control.faults.cut("Produce", when="after") as fault:
                assert producer.send("orders", b"1").result(timeout=10).offset == 1
                assert fault.fired == 1
        process.terminate()
