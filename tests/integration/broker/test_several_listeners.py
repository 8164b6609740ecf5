"""A broker with two listeners: the clients of each stay with its address."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kclient import Admin, Producer
from kclient.errors import IllegalStateError
from refbroker.testing import RefBroker, RemoteControl
from tests.support.patience import ANSWER, PROCESS
from tests.support.reading import read_all

MAP = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"


def broker(outside: int = 0, **settings: object) -> RefBroker:
    listeners = f"INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:{outside}"
    named = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return RefBroker(settings={"listeners": listeners, "listener.security.protocol.map": MAP, **named})


def test_the_clients_of_each_listener_stay_with_its_address() -> None:
    with broker() as kafka:
        kafka.create_topic("t")
        inside, outside = kafka.address("INSIDE"), kafka.address("OUTSIDE")
        assert kafka.bootstrap_servers == inside != outside
        for address in (inside, outside):
            with Admin(bootstrap_servers=address) as admin:
                (node,) = admin.describe_cluster().brokers.values()
                assert f"{node.host}:{node.port}" == address
            with Producer(bootstrap_servers=address) as producer:
                producer.send("t", address.encode()).result(ANSWER)
        for address in (inside, outside):
            assert [record.value for record in read_all(address, "t")] == [inside.encode(), outside.encode()]


def test_the_ports_that_were_picked_are_kept() -> None:
    with broker() as kafka:
        before = [kafka.address(name) for name in ("INSIDE", "OUTSIDE")]
        kafka.restart()
        assert [kafka.address(name) for name in ("INSIDE", "OUTSIDE")] == before


def test_a_port_in_use_releases_those_that_were_bound() -> None:
    with RefBroker() as other:
        kafka = broker(outside=other.port)
        with pytest.raises(OSError, match=f"could not listen on 127.0.0.1:{other.port}"):
            kafka.start()
        assert not kafka.is_running
    with kafka:
        assert kafka.address("OUTSIDE") == f"127.0.0.1:{other.port}"


def test_a_listener_that_is_not_advertised_has_no_address() -> None:
    with broker(advertised_listeners="OUTSIDE://localhost:0") as kafka:
        assert kafka.address("OUTSIDE").startswith("localhost:")
        assert kafka.bootstrap_servers == kafka.address("OUTSIDE")
        with pytest.raises(IllegalStateError, match="no address of a listener INSIDE"):
            kafka.address("INSIDE")


@pytest.mark.not_simulated("runs a process")
@pytest.mark.parametrize("advertised", ["INSIDE", "OUTSIDE"])
@pytest.mark.parametrize("options", [[], ["--control-port", "0"]], ids=["plain", "controlled"])
def test_run_prints_a_line_for_each_listener(tmp_path: Path, options: list[str], advertised: str) -> None:
    settings = (
        "listeners=INSIDE://127.0.0.1:0,OUTSIDE://:0",
        f"advertised.listeners={advertised}://127.0.0.1:0",
        f"listener.security.protocol.map={MAP}",
        f"inter.broker.listener.name={advertised}",
    )
    named = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "refbroker", "run", "--data-dir", str(tmp_path), *named, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3 if options else 2)]
        if options:
            control = RemoteControl(lines[2].split()[-1])
            place = ["INSIDE", "OUTSIDE"].index(advertised)
            assert control.bootstrap_servers == lines[place].split()[-1]
        process.terminate()
        _, errors = process.communicate(timeout=PROCESS)
    assert (process.returncode, errors) == (0, "")
    assert re.fullmatch(r"refbroker ready on 127\.0\.0\.1:\d+\n", lines[0])
    assert re.fullmatch(r"refbroker listener OUTSIDE on 127\.0\.0\.1:\d+\n", lines[1])


@pytest.mark.not_simulated("connects sockets of its own")
@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="the system has no sockets for both versions of IP")
def test_a_listener_without_a_host_accepts_connections_on_every_address() -> None:
    with RefBroker(settings={"listeners": "PLAINTEXT://:0"}) as kafka:
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, kafka.port), timeout=ANSWER):
                pass
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            (node,) = admin.describe_cluster().brokers.values()
            assert f"{node.host}:{node.port}" == f"127.0.0.1:{kafka.port}"
