"""SASL of a listener: which requests a connection may send when, and the broker's side of the mechanisms.

Not implemented: GSSAPI, OAUTHBEARER, delegation tokens, authenticating again (KIP-368). Elsewhere: SCRAM's computations
(`kclient.security.scram`), the requests (`refbroker.handlers.sasl_handshake`, `sasl_authenticate`). Source: KIP-12,
KIP-43, KIP-152, Kafka's SaslServerAuthenticator.
"""

from __future__ import annotations

import enum
import hmac
import secrets
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

from kclient.errors import (
    ConfigError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kclient.security.sasl import PLAIN
from kclient.security.scram import (
    MECHANISMS,
    MIN_ITERATIONS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    scram_server,
)
from kclient.security.secret import Secret
from kclient.state_machine import StateTable
from refbroker.security.principals import ANONYMOUS, Principal

IMPLEMENTED = (PLAIN, *MECHANISMS)
TOKEN_LIMIT = 524_288
"""Bytes of a frame before a client has logged in: Kafka's `sasl.server.max.receive.size`."""
_SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE = 17, 18, 36

Server = Generator[bytes, bytes, tuple[str, bytes]]
"""The broker's side of an exchange: yields an empty message, then its own; returns the user and its last message."""
ScramLookup = Callable[[ScramMechanism, str], ScramCredential | None]
"""Returns what is stored of a user."""


class State(enum.Enum):
    """The states of a connection that has to log in."""

    HANDSHAKE_OR_VERSIONS = "waits for ApiVersions or SaslHandshake"
    HANDSHAKE = "waits for SaslHandshake"
    AUTHENTICATE = "exchanges messages"
    COMPLETE = "has logged in"
    FAILED = "has failed"


class Event(enum.Enum):
    """The events that change the state."""

    VERSIONS = "ApiVersions"
    MECHANISM = "a mechanism was chosen"
    LOG_IN = "the user was verified"
    FAIL = "the user was refused"


_FAILS = {Event.FAIL: State.FAILED}
STATES = StateTable(
    "login",
    {
        State.HANDSHAKE_OR_VERSIONS: {Event.VERSIONS: State.HANDSHAKE, Event.MECHANISM: State.AUTHENTICATE} | _FAILS,
        State.HANDSHAKE: {Event.MECHANISM: State.AUTHENTICATE} | _FAILS,
        State.AUTHENTICATE: {Event.LOG_IN: State.COMPLETE} | _FAILS,
        State.COMPLETE: {},
        State.FAILED: {},
    },
)
_ALLOWED = {
    State.HANDSHAKE_OR_VERSIONS: (_API_VERSIONS, _SASL_HANDSHAKE),
    State.HANDSHAKE: (_SASL_HANDSHAKE,),
    State.AUTHENTICATE: (_SASL_AUTHENTICATE,),
    State.FAILED: (),
}
"""The APIs that a connection may use in each state; all of them once it has logged in."""


class Authenticator:
    """The login of one connection.

    Parameters:
        mechanisms: by name, what starts the broker's side of an exchange.

    Attributes:
        principal: who the client is; anonymous until it has logged in.
        takes_tokens: whether the next frames are the mechanism's messages without a request around them, as after
            SaslHandshake version 0.
    """

    def __init__(self, mechanisms: Mapping[str, Callable[[], Server]]) -> None:
        self.principal = ANONYMOUS
        self.takes_tokens = False
        self._mechanisms = mechanisms
        self._state = State.HANDSHAKE_OR_VERSIONS
        self._exchange: Server | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the client has logged in."""
        return self._state is State.COMPLETE

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms that the listener offers."""
        return list(self._mechanisms)

    def check_allowed(self, api_key: int) -> None:
        """Check that a request may come now.

        Raises:
            IllegalSaslStateError: it may not; the connection must be closed.
        """
        if self.is_complete:
            return
        if api_key not in _ALLOWED[self._state]:
            raise IllegalSaslStateError(f"a request of API {api_key} from a client that has not logged in")
        if api_key == _API_VERSIONS:
            self._change(Event.VERSIONS)

    def on_handshake(self, mechanism: str, version: int) -> None:
        """Handle SaslHandshake.

        Raises:
            UnsupportedSaslMechanismError: the listener does not offer the mechanism.
            IllegalSaslStateError: the client has logged in before.
        """
        if self.is_complete:
            raise IllegalSaslStateError("SaslHandshake request received after successful authentication")
        start = self._mechanisms.get(mechanism)
        if start is None:
            self._change(Event.FAIL)
            raise UnsupportedSaslMechanismError(f"Unsupported SASL mechanism {mechanism}")
        self._exchange = start()
        next(self._exchange)
        self.takes_tokens = version == 0
        self._change(Event.MECHANISM)

    def on_token(self, token: bytes) -> bytes:
        """Handle a message of the mechanism; return the response.

        Raises:
            SaslAuthenticationError: the client could not prove who it is.
            IllegalSaslStateError: the client has logged in before.
        """
        if self._exchange is None:
            raise IllegalSaslStateError("SaslAuthenticate request received after successful authentication")
        try:
            return self._exchange.send(token)
        except StopIteration as done:
            user, answer = done.value
            self._log_in(user)
            return bytes(answer)
        except KafkaError:
            self.takes_tokens = False
            self._change(Event.FAIL)
            raise

    def _log_in(self, user: str) -> None:
        self.principal = Principal("User", user)
        self.takes_tokens = False
        self._exchange = None
        self._change(Event.LOG_IN)

    def _change(self, event: Event) -> None:
        self._state = STATES.next_state(self._state, event)


class Users(NamedTuple):
    """Who may log in on a listener.

    Attributes:
        plain: passwords by name.
        scram: looks up what is stored for SCRAM.
        secret: makes up credentials of users that do not exist; the same for as long as the broker runs.
    """

    plain: Mapping[str, Secret]
    scram: ScramLookup
    secret: bytes

    def mechanisms(self, enabled: list[str]) -> dict[str, Callable[[], Server]]:
        """Return what starts an exchange, by mechanism.

        Raises:
            ConfigError: a mechanism is not implemented.
        """
        missing = [name for name in enabled if name not in IMPLEMENTED]
        if missing or not enabled:
            raise ConfigError(
                f"sasl.enabled.mechanisms: {missing[0] if missing else 'none'} is not implemented; set it to some of "
                f"{', '.join(IMPLEMENTED)}"
            )
        return {name: self._start_of(name) for name in enabled}

    def _start_of(self, name: str) -> Callable[[], Server]:
        if name == PLAIN:
            return lambda: plain_server(self.plain)
        mechanism = MECHANISMS[name]

        def lookup(user: str) -> ScramCredential:
            return self._credential(mechanism, user)

        return lambda: scram_server(mechanism, lookup, secrets.token_urlsafe(24))

    def _credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential:
        known = self.scram(mechanism, user)
        if known is not None:
            return known
        made_up = hmac.digest(self.secret, user.encode(), mechanism.hash)
        return credential_of(mechanism, made_up, made_up[:20], MIN_ITERATIONS)


def plain_server(users: Mapping[str, Secret]) -> Server:
    """Yield an empty message, receive the client's, and return the user and an empty one (RFC 4616).

    Raises:
        SaslAuthenticationError: the message is malformed, or the password is wrong.
    """
    token = yield b""
    try:
        parts = token.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslAuthenticationError("Authentication failed: the message is not UTF-8") from None
    if len(parts) != 3:
        raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    authorization, user, password = parts
    if not user:
        raise SaslAuthenticationError("Authentication failed: username not specified")
    if not password:
        raise SaslAuthenticationError("Authentication failed: password not specified")
    expected = users.get(user)
    # Compare in any case, so that the time does not tell who exists.
    known = (expected or Secret("\0")).reveal().encode()
    if not hmac.compare_digest(known, password.encode()):
        raise SaslAuthenticationError("Authentication failed: Invalid username or password")
    if authorization not in ("", user):
        raise SaslAuthenticationError(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return user, b""
