"""The set-up step that authenticates a client with SASL: SaslHandshake, then SaslAuthenticate until both sides agree.

If the broker limits the session, the connection runs the step again when 85 to 95 % of the time have passed, as the
Java client does. Not implemented: SaslHandshake version 0, of brokers before Kafka 1.0. Elsewhere: the messages within
the requests (`kclient.security.sasl`), and the thread for those that take long (`login_thread`). Source: KIP-43,
KIP-152, KIP-368.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import suppress

from kclient.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kclient.net.handshake import Ask, Await, Exchange, Setup, Step
from kclient.net.login_thread import LoginThread
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.security.sasl import Login, StartedExchange

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
        version = setup.ranges.negotiate(SaslHandshakeRequest, _FRAMED)
        body = yield Ask(SaslHandshakeRequest(mechanism=login.mechanism), version)
        handshake, _ = SaslHandshakeResponse.decode_prefix(body, version)
        if handshake.error_code:
            raise _handshake_error(handshake, login, setup.broker)
        version = setup.ranges.negotiate(SaslAuthenticateRequest)
        started = login.start(setup.host)
        received: bytes | None = None
        lifetime = 0.0
        while True:
            try:
                message = yield from _next_message(started, received, thread, login)
                if message is None:
                    break
                body = yield Ask(SaslAuthenticateRequest(auth_bytes=message), version)
                response, _ = SaslAuthenticateResponse.decode_prefix(body, version)
                if response.error_code:
                    _refused(started, response.error_message or f"error {response.error_code}")
            except SaslAuthenticationError as error:
                raise _refusal(login, setup.broker, error.message) from None
            received = bytes(response.auth_bytes)
            lifetime = response.session_lifetime_ms / 1000
        setup.reauthenticate_after = lifetime * rng.uniform(*_WINDOW) if lifetime > 0 else None
        setup.reauthenticate = step

    return step


def _next_message(
    started: StartedExchange, received: bytes | None, thread: LoginThread, login: Login
) -> Generator[Await, bytes | None, bytes | None]:
    """Return the client's next message, None after the last one.

    Raises:
        KafkaError: the exchange cannot continue.
    """

    def advance() -> bytes | None:
        try:
            # None begins it.
            return started.exchange.send(received)  # type: ignore[arg-type]
        except StopIteration:
            return None

    if started.blocks:
        return (yield thread.call(advance, f"the login with {login.mechanism}"))
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


def _handshake_error(response: SaslHandshakeResponse, login: Login, broker: str) -> AuthenticationError:
    if response.error_code == UnsupportedSaslMechanismError.code:
        offered = ", ".join(response.mechanisms) or "none"
        return UnsupportedSaslMechanismError(
            f"the listener does not offer the SASL mechanism {login.mechanism}; it offers {offered}", broker=broker
        )
    if response.error_code == IllegalSaslStateError.code:
        return IllegalSaslStateError(
            'the listener has no SASL; use security_protocol="PLAINTEXT" or "SSL" for it', broker=broker
        )
    return SaslAuthenticationError(f"SaslHandshake failed with error {response.error_code}", broker=broker)


def _refusal(login: Login, broker: str, reason: str) -> SaslAuthenticationError:
    return SaslAuthenticationError(
        f"{login.who} could not log in with {login.mechanism}: {reason.rstrip('.')}; check {login.options}",
        broker=broker,
    )
