"""The set-up step of SASL, and the options that choose it."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import pytest

from kclient.config import AdminConfig, ConsumerConfig
from kclient.errors import (
    ConfigError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)
from kclient.net.handshake import ApiRanges, Ask, Await, Setup
from kclient.net.login_thread import LoginThread
from kclient.net.sasl import authenticate
from kclient.protocol import Message
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.security.sasl import Exchange, Login, PasswordLogin, StartedExchange
from kclient.security.secret import Secret
from tests.kclient.net.scripted import QueueWorker

LOGIN = PasswordLogin("PLAIN", "alice", Secret("wonder"))
BROKER = "1 (kafka:9092)"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def body(response: Message, version: int) -> memoryview:
    return memoryview(response.encode(version))


def run(*responses: Message, ranges: dict[int, tuple[int, int]] | None = None, login: Login = LOGIN) -> list[Message]:
    """Run the step with these responses; return its requests."""
    setup = Setup(BROKER, "kafka", "1", "SASL_SSL")
    setup.ranges = ApiRanges(BROKER, {17: (0, 1), 36: (0, 2)} if ranges is None else ranges)
    exchange = authenticate(
        login, LoginThread(QueueWorker, lambda function: None, lambda: 0.0, 30.0), random.Random(1)
    )(setup)
    ask = next(exchange)
    assert isinstance(ask, Ask)
    asked = [ask.message]
    for response in responses:
        try:
            ask = exchange.send(body(response, ask.version))
        except StopIteration:
            return asked
        assert isinstance(ask, Ask)
        asked.append(ask.message)
    raise AssertionError("the step wants more responses")


def test_a_login_is_a_handshake_and_the_mechanisms_messages() -> None:
    asked = run(SaslHandshakeResponse(mechanisms=["PLAIN"]), SaslAuthenticateResponse(error_message=None))
    assert asked == [
        SaslHandshakeRequest(mechanism="PLAIN"),
        SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonder"),
    ]


@pytest.mark.parametrize(
    ("responses", "kind", "text"),
    [
        ([SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256", "OAUTHBEARER"])],
         UnsupportedSaslMechanismError, "the SASL mechanism PLAIN; it offers SCRAM-SHA-256, OAUTHBEARER"),
        ([SaslHandshakeResponse(error_code=34)], IllegalSaslStateError,
         'the listener has no SASL; set security_protocol="SSL"'),
        ([SaslHandshakeResponse(error_code=-1)], SaslAuthenticationError, "SaslHandshake failed with error -1"),
        ([SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=58, error_message="Invalid password.")],
         SaslAuthenticationError, "user 'alice' could not log in with PLAIN: Invalid password; check sasl_mechanism"),
        ([SaslHandshakeResponse(), SaslAuthenticateResponse(error_code=58, error_message=None)],
         SaslAuthenticationError, "could not log in with PLAIN: error 58"),
    ],
    ids=["mechanism", "no sasl", "unknown", "refused", "without a reason"],
)  # fmt: skip
def test_a_refusal_names_broker_mechanism_and_user(responses: list[Message], kind: type[KafkaError], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        run(*responses)
    assert caught.value.fatal
    assert caught.value.broker == BROKER
    assert "wonder" not in str(caught.value)


def test_a_broker_without_sasl_handshake_is_named() -> None:
    with pytest.raises(UnsupportedVersionError, match="the broker does not have the API SaslHandshake"):
        run(ranges={})


class ScriptedLogin(NamedTuple):
    """A login whose exchange is that of a test."""

    exchange: Exchange
    mechanism: str = "OTHER"
    who: str = "the user 'alice'"
    options: str = "sasl_username"
    awaits: str = "nothing"

    def start(self, host: str) -> StartedExchange:
        return StartedExchange(self.exchange, blocks=False)


def old_step(exchange: Exchange) -> Generator[Any, Any, None]:
    """Return the step after the handshake with a broker that has its version 0 only."""
    setup = Setup(BROKER, "kafka", "1", "SASL_SSL")
    setup.ranges = ApiRanges(BROKER, {17: (0, 0)})
    thread = LoginThread(QueueWorker, lambda function: None, lambda: 0.0, 30.0)
    step = authenticate(ScriptedLogin(exchange), thread, random.Random(1))(setup)
    asked: Any = next(step)
    assert (asked.message, asked.version) == (SaslHandshakeRequest(mechanism="OTHER"), 0)
    return step


def test_after_the_old_handshake_messages_travel_without_requests() -> None:
    received = []

    def exchange() -> Exchange:
        received.append((yield b"first"))
        received.append((yield b""))
        return None

    step = old_step(exchange())
    handshake = body(SaslHandshakeResponse(), 0)
    assert step.send(handshake).data == b"first"
    assert step.send(memoryview(b"abc")).data == b""
    with pytest.raises(StopIteration):
        step.send(memoryview(b""))
    assert received == [b"abc", b""]


def test_an_old_broker_does_not_respond_to_the_last_message_of_some_mechanisms() -> None:
    def exchange() -> Exchange:
        yield b"first"
        return b"last"

    step = old_step(exchange())
    assert step.send(body(SaslHandshakeResponse(), 0)).is_answered
    asked = step.send(memoryview(b"abc"))
    assert (asked.data, asked.is_answered) == (b"last", False)
    assert "refuses the user 'alice' in this way: check sasl_username" in asked.advice
    with pytest.raises(StopIteration):
        step.send(None)


def test_the_last_message_in_a_request_is_answered() -> None:
    def exchange() -> Exchange:
        yield b"first"
        return b"last"

    responses = (SaslHandshakeResponse(), *(SaslAuthenticateResponse(error_message=None) for _ in range(2)))
    asked = run(*responses, login=ScriptedLogin(exchange()))
    assert asked[1:] == [SaslAuthenticateRequest(auth_bytes=b"first"), SaslAuthenticateRequest(auth_bytes=b"last")]


def test_the_messages_of_scram_are_computed_on_the_login_thread() -> None:
    worker = QueueWorker()
    submitted: list[Callable[[], None]] = []
    setup = Setup(BROKER, "kafka", "1", "SASL_SSL")
    setup.ranges = ApiRanges(BROKER, {17: (0, 1), 36: (0, 2)})
    thread = LoginThread(lambda: worker, submitted.append, lambda: 0.0, 30.0)
    login = PasswordLogin("SCRAM-SHA-256", "alice", Secret("wonder"))
    step: Any = authenticate(login, thread, random.Random(1))(setup)
    asked = next(step)
    for response in (SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"r=x,s=c2FsdA==,i=1000000")):
        awaited = step.send(body(response, asked.version))
        assert isinstance(awaited, Await)
        results: list[Any] = []
        awaited.start(lambda result, now, results=results: results.append(result))  # type: ignore[misc]
        # The network thread has only handed it over.
        assert (len(worker.functions), results) == (1, [])
        worker.run()
        submitted.pop()()
        if isinstance(results[0], SaslAuthenticationError):
            assert "nonce does not continue that of this client" in results[0].message
        else:
            asked = step.send(results[0])
    assert asked.message.auth_bytes.startswith(b"n,,n=alice,r=")


def config(**options: Any) -> AdminConfig:
    return AdminConfig(security_protocol="SASL_PLAINTEXT", **options)


@pytest.mark.parametrize(
    ("mechanism", "jaas", "login"),
    [
        ("PLAIN", f'{PLAIN_MODULE} required username="a" password="b";', ("PLAIN", "a", Secret("b"), False)),
        ("SCRAM-SHA-512", f'{SCRAM_MODULE} required username="a" password="b" tokenauth="true";',
         ("SCRAM-SHA-512", "a", Secret("b"), True)),
    ],
    ids=["plain", "token"],
)  # fmt: skip
def test_a_jaas_config_says_who_logs_in(mechanism: str, jaas: str, login: tuple[Any, ...]) -> None:
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    assert ConsumerConfig.from_properties(properties).sasl == login


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs sasl_mechanism, one of PLAIN, SCRAM-SHA-256, .*, GSSAPI, AWS_MSK_IAM, not None"),
        ({"sasl_mechanism": "plain"}, "not 'plain'"),
        ({"sasl_mechanism": "GSSAPI"}, "sasl_mechanism=GSSAPI needs sasl_kerberos_service_name, such as \"kafka\""),
        ({"sasl_mechanism": "PLAIN", "sasl_kerberos_service_name": "kafka"},
         "sasl_kerberos_service_name has no effect with sasl_mechanism=PLAIN"),
        ({"sasl_mechanism": "PLAIN"}, "needs sasl_username and sasl_password, or sasl_jaas_config"),
        (
            {"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_password": "\udc80"},
            "the user or the password of SASL contains a NUL character, or bytes that are not UTF-8",
        ),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "a"}, "needs sasl_username and sasl_password"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": "a", "sasl_jaas_config": "x"}, "only one of sasl_jaas_config"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": f"{SCRAM_MODULE} required;"},
         "sasl_jaas_config has ScramLoginModule; sasl_mechanism=PLAIN needs PlainLoginModule"),
        ({"sasl_mechanism": "PLAIN", "sasl_jaas_config": f"{PLAIN_MODULE} required username=a;"},
         "sasl_jaas_config needs the options username and password"),
    ],
    ids=["no mechanism", "case", "no service", "other mechanism", "no user", "text", "no password", "both", "module",
         "no password in jaas"],
)  # fmt: skip
def test_options_that_cannot_log_in_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config(**options)


@pytest.mark.parametrize(("protocol", "other"), [("PLAINTEXT", "SASL_PLAINTEXT"), ("SSL", "SASL_SSL")])
def test_options_of_sasl_need_its_protocol(protocol: str, other: str) -> None:
    text = f'sasl_username has no effect with security_protocol="{protocol}"; set security_protocol="{other}"'
    with pytest.raises(ConfigError, match=text):
        AdminConfig(security_protocol=protocol, sasl_username="a")


def test_no_password_is_shown() -> None:
    jaas = f'{PLAIN_MODULE} required username="a" password="wonder";'
    shown = repr(config(sasl_mechanism="PLAIN", sasl_jaas_config=jaas))
    shown += repr(config(sasl_mechanism="PLAIN", sasl_username="a", sasl_password="wonder")) + repr(LOGIN)
    assert "wonder" not in shown
