"""`RefBroker` and the command line: start, stop, restart, crash."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from kclient import errors
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.testing import RefBroker, SimulatedDisk
from tests.support.broker_process import BrokerProcess
from tests.support.patience import NEVER_MS, PROCESS
from tests.support.waiting import wait_until
from tests.support.wire import Wire, fetch_request, frame, produce_request, values


def produce(kafka: RefBroker | BrokerProcess, value: bytes) -> int:
    with Wire(kafka.bootstrap_servers) as wire:
        answer = wire.ask(produce_request("t", value), 9).responses[0].partition_responses[0]
        assert answer.error_code == 0
        offset: int = answer.base_offset
        return offset


def stored(kafka: RefBroker | BrokerProcess) -> list[bytes | None]:
    with Wire(kafka.bootstrap_servers) as wire:
        return values(wire.ask(fetch_request("t"), 11))


def test_a_restart_finds_everything_again_on_the_same_port() -> None:
    with RefBroker() as kafka:
        kafka.create_topic("t", 2, retention_ms=1000)
        produce(kafka, b"a")
        before = kafka.bootstrap_servers
        kafka.restart()
        assert kafka.bootstrap_servers == before
        assert stored(kafka) == [b"a"]
        assert produce(kafka, b"b") == 1
        kafka.kill()
        assert not kafka.is_running
        with pytest.raises(ConnectionError):
            Wire(before)
        kafka.start()
        assert stored(kafka) == [b"a", b"b"]
        assert kafka.call(lambda broker: broker.parts.metadata.image.config(2, "t")) == {"retention.ms": "1000"}


def test_a_port_that_was_picked_stays_with_listeners_of_ones_own_too() -> None:
    listeners = "PLAINTEXT://localhost:0,CONTROLLER://localhost:9093"
    with RefBroker(settings={"listeners": listeners, "controller.listener.names": "CONTROLLER"}) as kafka:
        before = kafka.bootstrap_servers
        assert before == f"localhost:{kafka.port}"
        kafka.create_topic("t")
        kafka.restart()
        assert (kafka.bootstrap_servers, produce(kafka, b"v")) == (before, 0)


def test_temporary_files_go_and_others_stay(tmp_path: Path) -> None:
    with RefBroker() as kafka:
        directory = kafka.data_dir
        assert directory.exists()
    assert not directory.exists()
    with RefBroker(data_dir=tmp_path / "data") as kafka:
        kafka.create_topic("t")
        produce(kafka, b"a")
    with RefBroker(data_dir=tmp_path / "data") as kafka:
        assert stored(kafka) == [b"a"]
        with pytest.raises(errors.KafkaStorageError, match="in use"):
            RefBroker(data_dir=tmp_path / "data").start()


async def test_it_is_an_async_context_manager_too() -> None:
    async with RefBroker(num_partitions=3, auto_create_topics_enable=False) as kafka:
        kafka.create_topic("t", -1)
        log = kafka.log("t", 2)
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        with pytest.raises(errors.UnknownTopicOrPartitionError):
            kafka.log("t", 3)


def test_settings_that_cannot_be_are_errors_before_anything_starts() -> None:
    before = set(threading.enumerate())  # the broker that tests share may be one of them
    with pytest.raises(errors.ConfigError, match=r"did you mean num\.partitions"):
        RefBroker(num_partition=3)
    with pytest.raises(errors.ConfigError, match="Not a number"):
        RefBroker(settings={"num.partitions": "many"})
    with RefBroker() as kafka, pytest.raises(errors.IllegalStateError):
        kafka.start()
    kafka.stop()
    with pytest.raises(errors.IllegalStateError):
        kafka.log("t")
    assert "refbroker" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_a_call_that_comes_too_late_is_refused_and_does_not_wait() -> None:
    kafka = RefBroker().start()
    loop = kafka.call(lambda broker: asyncio.get_running_loop())
    close = loop.close
    heard: list[type[Exception]] = []

    def call() -> None:
        try:
            kafka.call(lambda broker: None)
        except errors.IllegalStateError as error:
            heard.append(type(error))

    def call_before_closing() -> None:
        # Its last turn is over.
        caller = threading.Thread(target=call, daemon=True)
        caller.start()
        caller.join(5.0)
        close()

    loop.close = call_before_closing  # type: ignore[method-assign]
    kafka.close()
    assert heard == [errors.IllegalStateError]


def test_a_port_that_is_taken_is_an_error() -> None:
    with RefBroker() as kafka:
        other = RefBroker(port=kafka.port)
        with pytest.raises(OSError, match="in use"):
            other.start()
        assert not other.is_running
        other.close()


def test_fifty_brokers_at_once_do_not_interfere_and_leave_nothing_behind() -> None:
    def usage() -> tuple[int, int]:
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    before = usage()
    brokers = [RefBroker().start() for _ in range(50)]
    try:
        for number, kafka in enumerate(brokers):
            kafka.create_topic("t")
            produce(kafka, b"%d" % number)
        assert [stored(kafka) for kafka in brokers] == [[b"%d" % number] for number in range(50)]
        threads, files = usage()
        assert threads - before[0] <= 2 * len(brokers)
        assert files - before[1] <= 20 * len(brokers)
    finally:
        for kafka in brokers:
            kafka.close()
    wait_until(lambda: usage() <= before)


def test_closing_waits_for_nobody() -> None:
    kafka = RefBroker().start()
    kafka.create_topic("t", max_message_bytes=20_000_000)
    with Wire(kafka.bootstrap_servers) as slow, Wire(kafka.bootstrap_servers) as waiting:
        slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.ask(produce_request("t", bytes(8_000_000)), 9)
        slow.write(frame(fetch_request("t"), 11, 1))
        waiting.send(fetch_request("t", 1, wait_ms=NEVER_MS), 11)
        wait_until(lambda: kafka.call(lambda broker: len(broker.parts.delayed_fetches)))
        kafka.close()
        kafka.close()


@pytest.fixture
def refbroker_options() -> dict[str, Any]:
    return {"num_partitions": 3, "disk": SimulatedDisk()}


@pytest.mark.refbroker(num_partitions=2)
def test_the_fixture_takes_options_of_the_module_and_of_the_test(refbroker: RefBroker) -> None:
    refbroker.create_topic("t", -1)
    assert refbroker.log("t", 1).log_end_offset == 0
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        refbroker.log("t", 2)
    assert isinstance(refbroker.disk, SimulatedDisk)


@pytest.mark.not_simulated("runs processes")
def test_the_process_stops_cleanly_and_survives_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerProcess(data) as process:
        with Wire(process.bootstrap_servers) as wire:
            wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")]), 12)
        produce(process, b"a")
        assert process.stop() == 0
    assert (data / ".kafka_cleanshutdown").exists()
    with BrokerProcess(data) as process:
        assert stored(process) == [b"a"]
        assert produce(process, b"b") == 1
        process.stop(kill=True)
    assert not (data / ".kafka_cleanshutdown").exists()
    with BrokerProcess(data) as process:
        assert stored(process) == [b"a", b"b"]
        assert process.output_file.read_text() == ""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "refbroker", *arguments], capture_output=True, text=True, timeout=PROCESS, check=False
    )


@pytest.mark.not_simulated("runs processes")
def test_mistakes_on_the_command_line_are_one_line_and_status_2(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    for arguments, says in (
        (("run",), "pass --data-dir"),
        (("run", "--data-dir", data, "--set", "num.partition=3"), "did you mean num.partitions?"),
        (("run", "--data-dir", data, "--set", "num.partitions"), "takes NAME=VALUE"),
        (("run", "--data-dir", data, "--config", str(tmp_path / "none")), "could not read"),
        (("run", "--data-dir", data, "--host", "192.0.2.1", "--port", "1"), "annot assign requested address"),
        (("dump-log",), "no file is named"),
    ):
        done = run(*arguments)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
    assert run("--version").stdout.startswith("refbroker ")


@pytest.mark.not_simulated("runs processes")
def test_dump_log_shows_every_kind_of_file(tmp_path: Path) -> None:
    with RefBroker(data_dir=tmp_path / "data") as kafka:
        kafka.create_topic("t")
        produce(kafka, b"some value")
        kafka.restart()
        produce(kafka, b"other")
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file() and path.name != ".lock"]
    done = run("dump-log", "--records", *map(str, files))
    assert (done.returncode, done.stderr) == (0, "")
    for expected in ("payload: some value", '"type":"TOPIC_RECORD"', "leaderEpoch: 0 startOffset: 0", "cluster.id: "):
        assert expected in done.stdout
    as_json = run("dump-log", "--json", "--records", *map(str, files))
    assert '"payload":"some value"' in as_json.stdout
    assert as_json.stdout.count("\n") > len(files)


@pytest.mark.not_simulated("runs processes")
def test_ctrl_c_stops_it_cleanly(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as process:
        os.kill(process.pid, signal.SIGINT)
        assert process._process.wait(PROCESS) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
