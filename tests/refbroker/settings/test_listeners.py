"""The listeners that settings describe, the addresses to advertise, and settings that contradict each other."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigError, InvalidRequestError
from refbroker.config import BrokerConfig
from refbroker.settings.listeners import Listener, Listeners, SecurityProtocol
from refbroker.settings.reconfiguration import check_change
from refbroker.testing import RefBroker

MAP = "listener.security.protocol.map"
COMBINED = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
}
SASL = {
    MAP: "CONTROLLER:SASL_SSL,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN",
}
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
    ("settings", "name"),
    [
        ({}, "PLAINTEXT"),
        ({**TWO, "inter.broker.listener.name": "outside"}, "OUTSIDE"),
        (TWO, "INSIDE"),
        ({"listeners": "SSL://:1,PLAINTEXT://:2"}, "PLAINTEXT"),
        ({"listeners": "SSL://:1,PLAINTEXT://:2", "security.inter.broker.protocol": "SSL"}, "SSL"),
        ({"listeners": "SSL://:1,SASL_SSL://:2"}, "SSL"),
        (COMBINED, "PLAINTEXT"),
        ({**SASL, **COMBINED, "sasl.mechanism.inter.broker.protocol": "PLAIN"}, "PLAINTEXT"),
    ],
    ids=["default", "by name", "first", "plaintext", "by protocol", "first secured", "combined", "sasl"],
)
def test_brokers_have_a_listener(settings: dict[str, str], name: str) -> None:
    config = BrokerConfig(settings)
    config.check_runnable()
    assert config.listeners.inter_broker == name


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
        (
            {**TWO, "inter.broker.listener.name": "INSIDE", "security.inter.broker.protocol": "PLAINTEXT"},
            "only one of inter.broker.listener.name and security.inter.broker.protocol can be set",
        ),
        (
            {**TWO, "security.inter.broker.protocol": "SSL"},
            (
                "security.inter.broker.protocol=SSL stands for a listener SSL, which is not among the advertised "
                "listeners: INSIDE, OUTSIDE; set inter.broker.listener.name instead"
            ),
        ),
        (
            {**COMBINED, "inter.broker.listener.name": "CONTROLLER"},
            "inter.broker.listener.name=CONTROLLER is among controller.listener.names",
        ),
        (
            {**COMBINED, "listeners": "PLAINTEXT://:9092"},
            (
                "controller.listener.names has CONTROLLER, which listeners must have, too, with "
                "process.roles=broker,controller"
            ),
        ),
        (
            {**COMBINED, "process.roles": "broker"},
            "controller.listener.names has CONTROLLER, which listeners must not have with process.roles=broker",
        ),
        ({"process.roles": "broker"}, "process.roles=broker needs controller.listener.names"),
        (
            {"process.roles": "broker", "controller.listener.names": "OTHER", MAP: "PLAINTEXT:PLAINTEXT"},
            "add OTHER:PLAINTEXT to listener.security.protocol.map",
        ),
        (
            {**COMBINED, "listeners": "SSL://:9092,CONTROLLER://:9093"},
            "add CONTROLLER:PLAINTEXT to listener.security.protocol.map",
        ),
        (
            {**SASL, "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
            (
                "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms when SASL is used "
                "for inter-broker communication"
            ),
        ),
        (
            {**SASL, **COMBINED, "sasl.mechanism.controller.protocol": "GSSAPI"},
            (
                "sasl.mechanism.controller.protocol must be included in sasl.enabled.mechanisms when SASL is used for "
                "controller communication"
            ),
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
        "between brokers twice",
        "protocol between brokers",
        "controller between brokers",
        "missing controller",
        "controller of others",
        "no controller",
        "protocol of controllers",
        "protocol of a controller",
        "mechanism between brokers",
        "mechanism of controllers",
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig(settings).check_runnable()
    assert text in caught.value.message
    with pytest.raises(ConfigError):
        RefBroker(settings=settings)


def test_a_mechanism_between_brokers_that_is_not_enabled_cannot_be_set_while_the_broker_runs() -> None:
    layers = BrokerConfig(SASL).layers
    name = "sasl.mechanism.inter.broker.protocol"
    check_change({name: "PLAIN"}, [name], every_broker=False, layers=layers)
    with pytest.raises(InvalidRequestError, match=f"{name} must be included in sasl.enabled.mechanisms"):
        check_change({name: "SCRAM-SHA-512"}, [name], every_broker=False, layers=layers)
    own = "listener.name.plaintext.sasl.enabled.mechanisms"
    with pytest.raises(InvalidRequestError, match=f"{name} must be included in sasl.enabled.mechanisms"):
        check_change({name: "PLAIN", own: "SCRAM-SHA-512"}, [own], every_broker=False, layers=layers)
