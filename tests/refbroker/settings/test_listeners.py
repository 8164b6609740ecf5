"""The listeners that settings describe, the addresses to advertise, and settings that contradict each other."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigError
from refbroker.config import BrokerConfig
from refbroker.settings.listeners import Listener, Listeners, SecurityProtocol
from refbroker.testing import RefBroker

MAP = "listener.security.protocol.map"
TWO = {"listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://0.0.0.0:0", MAP: "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"}


def test_without_settings_there_is_one_on_loopback() -> None:
    listeners = Listeners({})
    assert listeners.all == listeners.advertised({}) == [Listener("PLAINTEXT", "127.0.0.1", 9092)]
    assert listeners.protocol("PLAINTEXT") is SecurityProtocol.PLAINTEXT


def test_each_is_advertised_by_its_own_address() -> None:
    listeners = Listeners(TWO)
    assert listeners.all == [Listener("INSIDE", "127.0.0.1", 9092), Listener("OUTSIDE", "0.0.0.0", 0)]
    ports = {"INSIDE": 9092, "OUTSIDE": 4711}
    assert listeners.advertised(ports) == [
        Listener("INSIDE", "127.0.0.1", 9092),
        Listener("OUTSIDE", "127.0.0.1", 4711),
    ]


def test_advertised_addresses_replace_those_of_the_listeners() -> None:
    listeners = Listeners({**TWO, "advertised.listeners": "outside://kafka.example:0"})
    assert listeners.advertised({"OUTSIDE": 4711}) == [Listener("OUTSIDE", "kafka.example", 4711)]


def test_an_advertised_address_without_a_host_is_this_machine() -> None:
    settings = {"listeners": "PLAINTEXT://:9092", "advertised.listeners": "PLAINTEXT://:9092"}
    assert BrokerConfig(settings).listeners.advertised({}) == [("PLAINTEXT", "127.0.0.1", 9092)]


def test_controllers_listeners_do_not_count() -> None:
    listeners = Listeners(
        {
            "controller.listener.names": "controller",
            "listeners": "CONTROLLER://127.0.0.1:9093,CLIENTS://[::1]:9092",
            "advertised.listeners": "CONTROLLER://a:9093,CLIENTS://a:9092",
            MAP: "CONTROLLER:SSL,CLIENTS:PLAINTEXT",
        }
    )
    assert listeners.all == [Listener("CLIENTS", "::1", 9092)]
    assert str(listeners.all[0]) == "CLIENTS://[::1]:9092"
    assert listeners.advertised({}) == [Listener("CLIENTS", "a", 9092)]


def test_a_port_may_be_used_for_both_versions_of_ip() -> None:
    Listeners({**TWO, "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://[::1]:9092"})


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"listeners": "127.0.0.1:9092"}, "a listener must have the form NAME://host:port, not '127.0.0.1:9092'"),
        (
            {"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"},
            "none of the listeners CONTROLLER://:9093 is for clients",
        ),
        ({"listeners": "INSIDE://:9092"}, "add INSIDE:PLAINTEXT to listener.security.protocol.map"),
        ({MAP: "OTHER:PLAINTEXT"}, "add PLAINTEXT:PLAINTEXT to listener.security.protocol.map"),
        ({MAP: "PLAINTEXT:TLS"}, "has PLAINTEXT:TLS, which is not a security protocol; they are PLAINTEXT, SSL"),
        ({MAP: "PLAINTEXT"}, "listener.security.protocol.map must have the form NAME:PROTOCOL,..., not 'PLAINTEXT'"),
        (
            {"listeners": "PLAINTEXT://a:9092,PLAINTEXT://b:9093"},
            "each listener needs a name of its own: PLAINTEXT://a:9092, PLAINTEXT://b:9093",
        ),
        (
            {**TWO, "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://0.0.0.0:9092"},
            "the listeners INSIDE://127.0.0.1:9092 and OUTSIDE://0.0.0.0:9092 have the same port",
        ),
        (
            {**TWO, "listeners": "INSIDE://:9092,OUTSIDE://[::1]:9092"},
            "the listeners INSIDE://:9092 and OUTSIDE://[::1]:9092 have the same port",
        ),
        (
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9092", "controller.listener.names": "CONTROLLER"},
            "the listeners PLAINTEXT://:9092 and CONTROLLER://:9092 have the same port",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"},
            "each listener needs a name of its own: PLAINTEXT://a:1, PLAINTEXT://b:2",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a:9092,EXTERNAL://b:9093"},
            "advertised.listeners names EXTERNAL, which is not among the listeners: PLAINTEXT",
        ),
        (
            {"advertised.listeners": "CONTROLLER://a:9093", "controller.listener.names": "CONTROLLER"},
            "advertised.listeners names none of the listeners for clients: PLAINTEXT",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
            "no client can connect to PLAINTEXT://0.0.0.0:9092: advertised.listeners needs a host name or address",
        ),
        (
            {**TWO, "inter.broker.listener.name": "BETWEEN"},
            "inter.broker.listener.name=BETWEEN is not among the advertised listeners: INSIDE, OUTSIDE",
        ),
    ],
    ids=[
        "form",
        "only a controller's",
        "no security protocol",
        "missing in the map",
        "unknown security protocol",
        "form of the map",
        "name",
        "port",
        "port of every address",
        "port of a controller",
        "advertised name",
        "unknown advertised listener",
        "only a controller's advertised",
        "wildcard advertised",
        "between brokers",
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(settings).check_runnable()
    assert text in caught.value.message
    with pytest.raises(ConfigError):
        RefBroker(settings=settings)
