"""The set-up step that authenticates a client with SASL: SaslHandshake, then SaslAuthenticate until both sides agree.

If the broker limits the session, the connection runs the step again when 85 to 95 % of the time have passed, as the
Java client does. Brokers before Kafka 1.0 have version 0 of SaslHandshake only, after which the messages travel without
requests around them; such a broker gives no reason for a refusal. Elsewhere: the messages themselves
(`kclient.security.sasl`), and the thread for those that take long (`login_thread`). Source: KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import suppress
from typing import Any, NamedTuple

from kclient.config.security_values import WITHOUT_SASL
from kclient.errors import (
    DisconnectedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kclient.net.handshake import Ask, Await, BareMessage, Exchange, Setup, Step
from kclient.net.login_thread import LoginThread
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.security.sasl import ExplainedRefusalError, Login, StartedExchange

_FRAMED = 1
"""From this version of SaslHandshake on, SaslAuthenticate carries the messages."""

_WINDOW = (0.85, 0.95)
"""The part of a session's lifetime after which to authenticate again."""


def authenticate(login: Login, thread: LoginThread, rng: random.Random) -> Step:
    """Return the step.

    Parameters:
        login: who logs in, and how.
        thread: makes the steps of an exchange that may take long.
        rng: chooses when to authenticate again.
    """

    def step(setup: Setup) -> Exchange:
        version = setup.ranges.negotiate(SaslHandshakeRequest)
        body = yield Ask(SaslHandshakeRequest(mechanism=login.mechanism), version)
        handshake, _ = SaslHandshakeResponse.decode_prefix(body, version)
        if handshake.error_code:
            raise _handshake_error(handshake, login, setup)
        started = login.start(setup.host)
        try:
            if version >= _FRAMED:
                lifetime = yield from _by_requests(setup, started, thread, login)
            else:
                lifetime = yield from _by_bare_messages(started, thread, login)
        except SaslAuthenticationError as error:
            raise _refusal(login, setup.broker, error) from None
        setup.reauthenticate_after = lifetime * rng.uniform(*_WINDOW) if lifetime > 0 else None
        setup.reauthenticate = step

    return step


class _Message(NamedTuple):
    """A message of the client; after the last one the exchange has ended."""

    data: bytes
    is_last: bool


def _by_requests(
    setup: Setup, started: StartedExchange, thread: LoginThread, login: Login
) -> Generator[Ask | BareMessage | Await, Any, float]:
    """Exchange the messages in SaslAuthenticate requests; return the seconds that the session lasts, 0 for no limit.

    Raises:
        KafkaError: the broker refuses the client, or the exchange cannot continue.
    """
    version = setup.ranges.negotiate(SaslAuthenticateRequest)
    message = yield from _next_message(started, None, thread, login)
    lifetime = 0.0
    while message is not None:
        body = yield Ask(SaslAuthenticateRequest(auth_bytes=message.data), version)
        response, _ = SaslAuthenticateResponse.decode_prefix(body, version)
        if response.error_code:
            _refused(started, response.error_message or f"error {response.error_code}")
        lifetime = response.session_lifetime_ms / 1000
        if message.is_last:
            break
        message = yield from _next_message(started, bytes(response.auth_bytes), thread, login)
    return lifetime


def _by_bare_messages(
    started: StartedExchange, thread: LoginThread, login: Login
) -> Generator[Ask | BareMessage | Await, Any, float]:
    """Exchange the messages without requests; return 0, since the session has no limit.

    Raises:
        KafkaError: the exchange cannot continue.
    """
    advice = f"a broker before Kafka 1.0 refuses {login.who} in this way: check {login.options}"
    message = yield from _next_message(started, None, thread, login)
    while message is not None:
        received = yield BareMessage(message.data, advice, is_answered=not message.is_last)
        if message.is_last:
            break
        message = yield from _next_message(started, bytes(received), thread, login)
    return 0.0


def _next_message(
    started: StartedExchange, received: bytes | None, thread: LoginThread, login: Login
) -> Generator[Await, Any, _Message | None]:
    """Return the client's next message, None after the last one.

    Raises:
        KafkaError: the exchange cannot continue.
    """

    def advance() -> _Message | None:
        try:
            # None begins it.
            return _Message(started.exchange.send(received), is_last=False)  # type: ignore[arg-type]
        except StopIteration as end:
            return None if end.value is None else _Message(end.value, is_last=True)

    if started.blocks:
        found: _Message | None = yield thread.call(advance, login.awaits)
        return found
    return advance()


def _refused(started: StartedExchange, reason: str) -> None:
    """Raise what the exchange makes of the broker's refusal.

    Raises:
        KafkaError: in any case.
    """
    error = SaslAuthenticationError(reason)
    with suppress(StopIteration):
        started.exchange.throw(error)
    raise error


def _handshake_error(response: SaslHandshakeResponse, login: Login, setup: Setup) -> KafkaError:
    broker = setup.broker
    if response.error_code == UnsupportedSaslMechanismError.code:
        offered = ", ".join(response.mechanisms) or "none"
        return UnsupportedSaslMechanismError(
            f"the listener does not offer the SASL mechanism {login.mechanism}; it offers {offered}", broker=broker
        )
    if response.error_code == IllegalSaslStateError.code:
        if setup.reauthenticate is not None:
            # As does a broker to which the client has logged in less than a second ago.
            return DisconnectedError(
                "the broker does not let this client log in again so soon; the client connects again", broker=broker
            )
        return IllegalSaslStateError(
            f'the listener has no SASL; set security_protocol="{WITHOUT_SASL[setup.protocol]}"',
            broker=broker,
        )
    return SaslAuthenticationError(f"SaslHandshake failed with error {response.error_code}", broker=broker)


def _refusal(login: Login, broker: str, error: SaslAuthenticationError) -> SaslAuthenticationError:
    advice = error.advice if isinstance(error, ExplainedRefusalError) else f"check {login.options}"
    reason = error.message.rstrip(".")
    return SaslAuthenticationError(
        f"{login.who} could not log in with {login.mechanism}: {reason}; {advice}", broker=broker
    )
