"""The set-up step that authenticates a client with SASL: SaslHandshake, then SaslAuthenticate until both sides agree.

If the broker limits the session, the connection runs the step again when 85 to 95 % of the time have passed, as the
Java client does. Not implemented: SaslHandshake version 0, of brokers before Kafka 1.0. Elsewhere: the messages within
the requests (`kclient.security.sasl`). Source: KIP-43, KIP-152, KIP-368.
"""

from __future__ import annotations

import random

from kclient.config import ClientConfig
from kclient.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kclient.net.handshake import Ask, Exchange, Setup, Step, find_versions
from kclient.net.runtime import current
from kclient.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kclient.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kclient.security.sasl import SaslLogin


def steps_of(config: ClientConfig) -> tuple[Step, ...]:
    """Return the set-up of a client's connections."""
    return (find_versions, authenticate(config.sasl, current().random())) if config.uses_sasl else (find_versions,)


_FRAMED = 1
"""From this version of SaslHandshake on, SaslAuthenticate carries the messages."""


_WINDOW = (0.85, 0.95)
"""The part of a session's lifetime after which to authenticate again."""


def authenticate(login: SaslLogin, rng: random.Random) -> Step:
    """Return the step.

    Parameters:
        login: who logs in, and how.
        rng: chooses when to authenticate again.
    """

    def step(setup: Setup) -> Exchange:
        version = setup.ranges.negotiate(SaslHandshakeRequest, _FRAMED)
        body = yield Ask(SaslHandshakeRequest(mechanism=login.mechanism), version)
        handshake, _ = SaslHandshakeResponse.decode_prefix(body, version)
        if handshake.error_code:
            raise _handshake_error(handshake, login, setup.broker)
        version = setup.ranges.negotiate(SaslAuthenticateRequest)
        exchange = login.exchange()
        message = next(exchange)
        while True:
            body = yield Ask(SaslAuthenticateRequest(auth_bytes=message), version)
            response, _ = SaslAuthenticateResponse.decode_prefix(body, version)
            if response.error_code:
                raise _refusal(login, setup.broker, response.error_message or f"error {response.error_code}")
            try:
                message = exchange.send(bytes(response.auth_bytes))
            except StopIteration:
                lifetime = response.session_lifetime_ms / 1000
                setup.reauthenticate_after = lifetime * rng.uniform(*_WINDOW) if lifetime > 0 else None
                setup.reauthenticate = step
                return
            except SaslAuthenticationError as error:
                raise _refusal(login, setup.broker, error.message) from None

    return step


def _handshake_error(response: SaslHandshakeResponse, login: SaslLogin, broker: str) -> AuthenticationError:
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


def _refusal(login: SaslLogin, broker: str, reason: str) -> SaslAuthenticationError:
    return SaslAuthenticationError(
        f"the user {login.user!r} could not log in with {login.mechanism}: {reason.rstrip('.')}; check sasl_mechanism, "
        "sasl_username and sasl_password",
        broker=broker,
    )
