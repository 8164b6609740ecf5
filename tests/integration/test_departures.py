"""Consumers that nobody closed: they commit, leave their group and stop, and say so."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import anyio.lowlevel
import pytest

from kclient import Admin, AsyncConsumer, Consumer
from kclient.consumer import departure
from kclient.errors import ClosedError
from kclient.types import TopicPartition
from refbroker.testing import RefBroker
from tests.support.patience import PROCESS
from tests.support.reading import read
from tests.support.seeding import Seeder
from tests.support.waiting import wait_until

NEVER = 3_600_000


@pytest.fixture
def collector_at_rest() -> Iterator[None]:
    """Nothing is collected unless the test says so: any thread's next allocation might do it, a line too early."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def options(bootstrap_servers: str, group: str, protocol: str = "classic") -> dict[str, object]:
    return {
        "bootstrap_servers": bootstrap_servers,
        "group_id": group,
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": NEVER,
    }


def committed(admin: Admin, group: str, topic: str) -> int | None:
    found = admin.list_group_offsets(group)[group].get(TopicPartition(topic, 0))
    return None if found is None else found.offset


def wait_until_empty(admin: Admin, group: str) -> None:
    wait_until(lambda: not admin.describe_groups([group])[group].members)


@pytest.mark.usefixtures("collector_at_rest")
def test_a_collected_member_commits_what_earlier_polls_returned_and_leaves(
    bootstrap_servers: str, topic: str, seed: Seeder, admin: Admin, group_protocol: str
) -> None:
    seed.create(topic)
    seed.append(topic, [b"%d" % number for number in range(5)])
    consumer = Consumer(topic, **options(bootstrap_servers, topic, group_protocol))  # type: ignore[arg-type]
    read(consumer, 3, max_records=1)
    engine = consumer._core.engine
    del consumer  # it and its iterator know each other, so that the collector alone ends it, where the test looks
    with pytest.warns(ResourceWarning, match="Consumer 'kclient' was not closed"):
        gc.collect()
    wait_until(lambda: engine.closed)
    wait_until_empty(admin, topic)
    assert committed(admin, topic, topic) == 2


@pytest.mark.usefixtures("collector_at_rest")
def test_a_member_collected_during_an_iteration_commits_up_to_the_current_record(
    bootstrap_servers: str, topic: str, seed: Seeder, admin: Admin
) -> None:
    seed.create(topic)
    seed.append(topic, [b"%d" % number for number in range(5)])
    consumer = Consumer(topic, **options(bootstrap_servers, topic))  # type: ignore[arg-type]
    for record in consumer:
        if record.offset == 3:
            break
    del consumer, record
    with pytest.warns(ResourceWarning, match="was not closed"):
        gc.collect()
    wait_until_empty(admin, topic)
    assert committed(admin, topic, topic) == 3


@pytest.mark.usefixtures("collector_at_rest")
def test_a_collected_member_without_automatic_commits_leaves_and_commits_nothing(
    bootstrap_servers: str, topic: str, seed: Seeder, admin: Admin
) -> None:
    seed.create(topic)
    seed.append(topic, [b"0", b"1"])
    given = options(bootstrap_servers, topic) | {"enable_auto_commit": False}
    consumer = Consumer(topic, **given)  # type: ignore[arg-type]
    read(consumer, 2, max_records=1)
    del consumer
    with pytest.warns(ResourceWarning, match="was not closed"):
        gc.collect()
    wait_until_empty(admin, topic)
    assert committed(admin, topic, topic) is None


@pytest.mark.usefixtures("collector_at_rest")
def test_a_collected_static_member_stays_in_its_group(
    bootstrap_servers: str, topic: str, seed: Seeder, admin: Admin
) -> None:
    seed.create(topic)
    seed.append(topic, [b"0", b"1"])
    given = options(bootstrap_servers, topic) | {"group_instance_id": "i", "session_timeout_ms": 300_000}
    consumer = Consumer(topic, **given)  # type: ignore[arg-type]
    read(consumer, 2, max_records=1)
    engine = consumer._core.engine
    del consumer
    with pytest.warns(ResourceWarning, match="was not closed"):
        gc.collect()
    wait_until(lambda: engine.closed)
    assert [member.instance_id for member in admin.describe_groups([topic])[topic].members] == ["i"]
    assert committed(admin, topic, topic) == 1


@pytest.mark.anyio
@pytest.mark.usefixtures("collector_at_rest")
async def test_a_collected_async_member_leaves(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    consumer = AsyncConsumer(topic, **options(bootstrap_servers, topic))  # type: ignore[arg-type]
    while not consumer.assignment():
        await consumer.poll(timeout=0.1)
    # trio's loop keeps the exception that ended the wait, with all its frames, until this task yields again.
    await anyio.lowlevel.checkpoint()
    del consumer
    with pytest.warns(ResourceWarning, match="AsyncConsumer 'kclient' was not closed"):
        gc.collect()
    wait_until_empty(admin, topic)


def test_a_member_that_departs_refuses_calls(bootstrap_servers: str, topic: str, seed: Seeder) -> None:
    seed.create(topic)
    with Consumer(topic, **options(bootstrap_servers, topic)) as consumer:  # type: ignore[arg-type]
        while not consumer.assignment():
            consumer.poll(timeout=0.1)
        assert consumer._core._open.depart()
        with pytest.raises(ClosedError):
            consumer.poll(timeout=0.1)
        assert not consumer._core._open.depart()
        wait_until(lambda: consumer._core.engine.closed)


@pytest.mark.refbroker_only
@pytest.mark.usefixtures("collector_at_rest")
def test_a_departure_ends_in_time_when_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(departure, "EXIT_SECONDS", 0.2)
    with RefBroker() as broker:
        with Seeder(broker.bootstrap_servers) as seed:
            seed.create("t")
            seed.append("t", [b"0", b"1"])
        consumer = Consumer("t", **options(broker.bootstrap_servers, "g"))  # type: ignore[arg-type]
        read(consumer, 2, max_records=1)
        broker.stop()
        engine = consumer._core.engine
        del consumer
        with pytest.warns(ResourceWarning, match="was not closed"):
            gc.collect()
        wait_until(lambda: engine.closed)


FORGETFUL = """
import sys, threading
from kclient import Consumer
servers, topic, where = sys.argv[1:]

def consume():
    options = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 3_600_000}
    consumer = Consumer(topic, bootstrap_servers=servers, group_id=topic, **options)
    while not consumer.poll(0.1, max_records=1):
        pass
    while not consumer.poll(0.1, max_records=1):
        pass
    return consumer

def consume_indefinitely(ready):
    consumer = consume()
    ready.set()
    while True:
        consumer.poll(60.0)

if where == "module":
    consumer = consume()
elif where == "function":
    consume()
else:
    ready = threading.Event()
    threading.Thread(target=consume_indefinitely, args=[ready], daemon=True).start()
    ready.wait()
"""


@pytest.mark.not_simulated("runs processes")
@pytest.mark.parametrize("where", ["module", "function", "daemon thread"])
def test_the_end_of_the_interpreter_lets_members_commit_and_leave(
    bootstrap_servers: str, topic: str, seed: Seeder, admin: Admin, where: str
) -> None:
    seed.create(topic)
    seed.append(topic, [b"0", b"1"])
    command = [sys.executable, "-W", "always", "-c", FORGETFUL, bootstrap_servers, topic, where]
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=PROCESS, check=True
    )
    assert "the consumer 'kclient' was not closed before the interpreter ended" in ended.stderr
    assert admin.describe_groups([topic])[topic].members == ()
    assert committed(admin, topic, topic) in ((1, 2) if where == "daemon thread" else (1,))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.not_simulated("runs threads or processes")
def test_a_forked_child_neither_leaves_nor_warns(bootstrap_servers: str, topic: str, seed: Seeder) -> None:
    seed.create(topic)
    with Consumer(topic, **options(bootstrap_servers, topic)) as consumer:  # type: ignore[arg-type]
        while not consumer.assignment():
            consumer.poll(timeout=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
            child = os.fork()
        if not child:
            status = 1
            try:
                status = int(consumer._core._open.depart())
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not consumer._core.engine.closed
