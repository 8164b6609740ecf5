"""The control port: the same methods from another process, JSON for every other language."""

from __future__ import annotations

import inspect
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kclient import errors
from kclient.protocol.messages.api_versions import ApiVersionsRequest
from kclient.protocol.messages.metadata import MetadataRequest
from refbroker.testing import RefBroker, RemoteControl
from refbroker.testing.control.client import RemoteDisk
from refbroker.testing.control.server import ControlServer
from refbroker.testing.simulated_disk import SimulatedDisk
from tests.support.broker_process import BrokerProcess
from tests.support.patience import ANSWER
from tests.support.wire import Wire, fetch_request, produce_request, values

over_http = pytest.mark.not_simulated("controls a broker over HTTP")


@pytest.fixture
def kafka() -> Iterator[RefBroker]:
    with RefBroker(disk=SimulatedDisk()) as kafka:
        kafka.create_topic("orders")
        yield kafka


@pytest.fixture
def server(kafka: RefBroker) -> Iterator[ControlServer]:
    with ControlServer(kafka, "127.0.0.1", 0) as server:
        yield server


@pytest.fixture
def control(server: ControlServer) -> RemoteControl:
    return RemoteControl(server.url)


def produce(bootstrap_servers: str, value: bytes = b"v") -> int:
    with Wire(bootstrap_servers) as wire:
        answer = wire.ask(produce_request("orders", value), 9).responses[0].partition_responses[0]
    code: int = answer.error_code
    return code


def ask(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, Any]:
    """The status and the decoded answer, as curl would have them."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=body, method=method), timeout=ANSWER) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@over_http
def test_faults_work_as_in_the_process(kafka: RefBroker, control: RemoteControl) -> None:
    with control.faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="orders", count=2) as fault:
        assert produce(control.bootstrap_servers) == 6
        fault.wait(timeout=0)
        with pytest.raises(TimeoutError, match="was applied to 1 of 2 requests"):
            fault.wait(2, timeout=0.01)
        assert [(one.rule, one.fired) for one in control.faults.list()] == [(fault.rule, 1)]
    assert (fault.fired, kafka.faults.list()) == (1, [])
    fault.remove()
    assert produce(control.bootstrap_servers) == 0
    with pytest.raises(errors.ConfigError, match="did you mean Produce"):
        control.faults.cut("Prodce")
    with control.faults.delay("ApiVersions") as delay, Wire(control.bootstrap_servers) as wire:
        wire.send(ApiVersionsRequest(), 0)
        delay.wait()
        delay.remove()
        assert wire.read_frame()
    control.faults.drop("Produce")
    control.faults.clear()
    assert control.faults.list() == []


@over_http
def test_the_clock_works_as_in_the_process(kafka: RefBroker, control: RemoteControl) -> None:
    control.clock.hold(at_ms=1_700_000_000_000)
    control.clock.step(1.5)
    assert (kafka.clock.now_ms, control.clock.now_ms, control.clock.is_held) == (1_700_000_001_500,) * 2 + (True,)
    control.clock.run()
    assert not kafka.clock.is_held


@over_http
def test_the_broker_is_stopped_crashed_and_started_again(kafka: RefBroker, control: RemoteControl) -> None:
    before = control.bootstrap_servers
    for end in (control.stop, control.kill):
        end()
        assert (control.is_running, kafka.is_running) == (False, False)
        control.start()
    control.restart()
    with pytest.raises(errors.IllegalStateError, match="is already running"):
        control.start()
    assert (control.bootstrap_servers, produce(before)) == (before, 0)
    epoch = control.elect("orders")
    assert control.state()["topics"]["orders"]["leader_epochs"] == [epoch]
    assert control.elect("orders", 0) == epoch + 1
    with pytest.raises(errors.UnknownTopicOrPartitionError):
        control.elect("bills", 1)


@over_http
def test_simultaneous_restarts_run_one_after_the_other(kafka: RefBroker, control: RemoteControl) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: control.restart(), range(4))) == [None] * 4
    assert produce(control.bootstrap_servers) == 0


@over_http
def test_the_disk_fails_fills_up_and_loses(kafka: RefBroker, control: RemoteControl) -> None:
    assert produce(control.bootstrap_servers) == 0
    control.disk.fail(path_prefix=kafka.data_dir / "orders-0", operation="write", count=1)
    assert produce(control.bootstrap_servers) == errors.KafkaStorageError.code
    control.disk.heal()
    lost = control.lose_power(seed=7)
    assert not control.is_running
    assert set(lost) == {"kept", "lost", "torn", "zeros", "names_kept", "names_lost"}
    control.start()
    control.disk.fill(bytes_left=1 << 20)
    control.disk.heal()
    with pytest.raises(errors.ConfigError, match="not an operation"):
        control.disk.fail(operation="burn")  # type: ignore[arg-type]


@over_http
def test_invalid_requests_get_an_error_response(server: ControlServer) -> None:
    for method, path, body, status, says in (
        ("POST", "/faults", b"{", 400, "the body is not JSON: Expecting property name"),
        ("POST", "/faults", b"[]", 400, "the body must be an object"),
        ("POST", "/faults", b"{}", 400, "a fault needs an action"),
        ("GET", "/faults?id=9", None, 404, "there is no fault 9"),
        ("GET", "/faults?id=x", None, 400, "id must be a number"),
        ("GET", "/faults?id=inf", None, 400, "id must be a number"),
        ("DELETE", "/faults?id=9", None, 404, "there is no fault 9"),
        ("POST", "/clock/step", b'{"seconds": "1"}', 400, "seconds must be int or float, not '1'"),
        ("POST", "/clock/step", b'{"seconds": Infinity}', 400, "infinity"),
        ("POST", "/clock/hold", b'{"at_ms": true}', 400, "at_ms must be int, not True"),
        ("POST", "/elect", b"{}", 400, "topic must be str, not None"),
        ("POST", "/disk/fail", b'{"operations": "write"}', 400, "has no operations; it has path_prefix"),
        ("POST", "/disk/fail", b'{"error": "EIEIO"}', 400, "EIEIO is not the name of an error"),
        ("POST", "/disk/fill", b"{}", 400, "bytes_left must be int"),
        ("POST", "/power-failure", b"{}", 400, "seed must be int"),
        ("POST", "/start", b"", 409, "the broker is already running"),
        ("GET", "/start", None, 405, "/start takes POST"),
    ):
        found, answer = ask(server.url + path, method, body)
        assert (found, says in answer["error"]) == (status, True), answer


@over_http
def test_metrics_are_there_while_the_broker_runs(kafka: RefBroker, server: ControlServer) -> None:
    with urllib.request.urlopen(server.url + "/metrics", timeout=ANSWER) as response:
        assert b"kafka_" in response.read()
    kafka.stop()
    assert ask(server.url + "/metrics") == (409, {"error": "the broker does not run", "name": "ILLEGAL_STATE"})


def test_remote_and_local_have_the_same_methods() -> None:
    def public(kind: object) -> dict[str, list[str]]:
        return {
            name: [each for each in inspect.signature(member).parameters if each != "self"]
            for name, member in inspect.getmembers(kind, inspect.isroutine)
            if not name.startswith("_")
        }

    local, remote = public(RefBroker), public(RemoteControl)
    assert remote.pop("state") == []
    assert {name: local[name] for name in remote} == remote
    disk = public(SimulatedDisk)
    assert {name: disk[name] for name in public(RemoteDisk)} == public(RemoteDisk)


@over_http
def test_a_refused_connection_is_an_error_with_advice() -> None:
    with pytest.raises(errors.BrokerConnectionError, match="--control-port"):
        RemoteControl("http://127.0.0.1:1").state()


@pytest.mark.not_simulated("runs a process")
def test_a_process_is_controlled_from_outside(tmp_path: Path) -> None:
    options = ("--control-port", "0", "--metrics-port", "0", "--simulated-disk")
    with BrokerProcess(tmp_path / "data", settings={"log.flush.interval.messages": "1"}, options=options) as process:
        lines = process.lines
        (url,) = re.findall(r"^refbroker control on (\S+)$", "\n".join(lines), re.MULTILINE)
        (page,) = re.findall(r"^refbroker metrics on (\S+)$", "\n".join(lines), re.MULTILINE)
        control = RemoteControl(url)
        assert control.bootstrap_servers == process.bootstrap_servers
        with Wire(process.bootstrap_servers) as wire:
            wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")]), 12)
        assert produce(process.bootstrap_servers, b"flushed") == 0
        status, fault = ask(f"{url}/faults", "POST", b'{"action": "cut", "api": "Produce", "when": "before"}')
        assert (status, fault["fired"]) == (200, 0)
        with Wire(process.bootstrap_servers) as wire:
            wire.send(produce_request("orders", b"cut"), 9)
            assert wire.is_closed()
        assert ask(f"{url}/faults?id={fault['id']}&fired=1&timeout=5")[1]["fired"] == 1
        control.lose_power(seed=3)
        control.start()
        with Wire(process.bootstrap_servers) as wire:
            assert values(wire.ask(fetch_request("orders"), 11)) == [b"flushed"]
        with urllib.request.urlopen(page, timeout=ANSWER) as response:
            assert b"kafka_" in response.read()
        assert process.stop() == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert process.output_file.read_text() == ""
