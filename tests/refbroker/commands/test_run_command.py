"""Where `refbroker run` takes its settings from."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from refbroker.commands import run
from refbroker.config import BrokerConfig

FILE = (
    "listeners=CONTROLLER://:9093,CLIENTS://0.0.0.0:9092\ncontroller.listener.names=CONTROLLER\nlog.dirs=/a\n"
    "advertised.listeners=CLIENTS://example.com:9092\nlistener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:SSL\n"
    "num.partitions=3\n"
)


def settings(*arguments: str) -> dict[str, str]:
    parser = argparse.ArgumentParser()
    run.add_parser(parser.add_subparsers())
    return run.settings_from(parser.parse_args(["run", *arguments]))


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(FILE)
    found = settings("--config", str(file), "--set", "num.partitions=5", "--data-dir", "/b")
    assert (found["num.partitions"], found["log.dirs"]) == ("5", "/b")
    assert BrokerConfig(found).listeners.all[0] == ("CLIENTS", "0.0.0.0", 9092)
    assert BrokerConfig(found).listeners.advertised({})[0] == ("CLIENTS", "example.com", 9092)


@pytest.mark.parametrize(
    ("options", "listeners"),
    [
        (("--port", "0"), "CONTROLLER://:9093,CLIENTS://0.0.0.0:0"),
        (("--host", "::1"), "CONTROLLER://:9093,CLIENTS://[::1]:9092"),
        (("--host", "127.0.0.1", "--port", "7"), "CONTROLLER://:9093,CLIENTS://127.0.0.1:7"),
    ],
)
def test_another_port_or_host_moves_the_listener_for_clients(
    tmp_path: Path, options: tuple[str, ...], listeners: str
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(FILE)
    found = settings("--config", str(file), *options)
    assert found["listeners"] == listeners
    assert "advertised.listeners" not in found


@pytest.mark.parametrize(
    ("listeners", "advertised", "expected"),
    [
        ("CLIENTS://:9092", "CLIENTS://a:1,CONTROLLER://b:2", "CLIENTS://127.0.0.1:0,CONTROLLER://b:2"),
        ("CLIENTS://c:9092,OUTSIDE://:2", "OUTSIDE://a:1,CLIENTS://b:2", "OUTSIDE://a:1,CLIENTS://c:0"),
        ("CLIENTS://:9092,OUTSIDE://:2", "OUTSIDE://a:1", "OUTSIDE://a:1"),
    ],
    ids=["controller", "two for clients", "not advertised"],
)
def test_another_port_keeps_the_advertised_addresses_of_other_listeners(
    tmp_path: Path, listeners: str, advertised: str, expected: str
) -> None:
    file = tmp_path / "server.properties"
    text = f"controller.listener.names=CONTROLLER\nlisteners={listeners}\nadvertised.listeners={advertised}\n"
    file.write_text(f"{text}log.dirs=/a\nlistener.security.protocol.map=CLIENTS:PLAINTEXT,OUTSIDE:PLAINTEXT\n")
    found = settings("--config", str(file), "--port", "0")
    assert found["advertised.listeners"] == expected
    assert BrokerConfig(found).listeners.advertised({})


def test_without_a_file_it_listens_on_loopback() -> None:
    assert settings("--data-dir", "/a", "--port", "0")["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert settings("--data-dir", "/a", "--host", "::1")["listeners"] == "PLAINTEXT://[::1]:9092"
    assert "listeners" not in settings("--data-dir", "/a")


def test_certificates_are_written_beside_the_data_once(tmp_path: Path) -> None:
    data, made = tmp_path / "data", tmp_path / "data-tls"
    found = settings("--data-dir", str(data), "--tls", "--port", "0")
    assert found["listeners"] == "SSL://127.0.0.1:0"
    assert found["ssl.keystore.location"] == str(made / "broker.pem")
    names = ["broker.pem", "ca.pem", "client.pem", "client.properties"]
    assert sorted(path.name for path in made.iterdir()) == names
    assert {path.stat().st_mode & 0o777 for path in made.iterdir()} == {0o600}
    before = {path: path.read_bytes() for path in made.iterdir()}
    assert settings("--data-dir", str(data), "--tls") == {**found, "listeners": "SSL://127.0.0.1:9092"}
    assert {path: path.read_bytes() for path in made.iterdir()} == before
    assert not data.exists()


def test_given_stores_take_precedence_over_written_ones(tmp_path: Path) -> None:
    directory = str(tmp_path / "certificates")
    options = ("--data-dir", "/a", "--tls", directory, "--set", "ssl.truststore.location=/own.pem")
    assert settings(*options)["ssl.truststore.location"] == "/own.pem"
    assert settings(*options)["ssl.keystore.location"] == f"{directory}/broker.pem"
