"""SASL of a listener: which requests a connection may send when, and the broker's side of the mechanisms.

Where `connections.max.reauth.ms` or the expiry of a delegation token limits a session, the client has to log in again
as the same user and with the same mechanism before the session ends (KIP-368).
Elsewhere: SCRAM's computations (`kclient.security.scram`), delegation tokens (`refbroker.metadata.tokens`), tokens
of OAUTHBEARER (`oauth`), tickets of GSSAPI (`kerberos`), the requests (`refbroker.handlers.sasl_handshake`,
`sasl_authenticate`).
Source: KIP-12, KIP-43, KIP-48, KIP-152, KIP-368, Kafka's SaslServerAuthenticator and KafkaChannel.
"""

from __future__ import annotations

import enum
import hmac
import secrets
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import NamedTuple

from kclient.errors import (
    ConfigError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from kclient.security.refusals import UnexplainedRefusalError
from kclient.security.sasl import GSSAPI, OAUTHBEARER, PLAIN, WITH_PASSWORD
from kclient.security.scram import (
    MECHANISMS,
    MIN_ITERATIONS,
    ScramAccount,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salt_of,
    scram_server,
)
from kclient.security.secret import Secret
from kclient.state_machine import StateTable
from refbroker.security.principals import ANONYMOUS, Principal

IMPLEMENTED = (*WITH_PASSWORD, OAUTHBEARER, GSSAPI)
TOKEN_LIMIT = 524_288
"""Bytes of a frame before a client has logged in, by default."""
TOKEN_LIMIT_SETTING = "sasl.server.max.receive.size"
_SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE = 17, 18, 36


class Login(NamedTuple):
    """A login whose client has proved who it is.

    Attributes:
        user: the user.
        message: the broker's last message; None if the mechanism has none, so that nothing follows the old handshake.
        expires_ms: when the credential expires, in milliseconds since the epoch; None for never.
        by_token: whether the credential is a delegation token.
    """

    user: str
    message: bytes | None = b""
    expires_ms: int | None = None
    by_token: bool = False


StepResult = bytes | Login | KafkaError
"""What a step of an exchange results in: the next message, the login at its end, or a failure."""
Server = Generator[bytes, bytes, Login]
"""The broker's side of an exchange: yields an empty message, then its own; returns the login with its last message."""
ScramLookup = Callable[[ScramMechanism, str], ScramCredential | None]
"""Returns what is stored of a user."""
TokenLookup = Callable[[ScramMechanism, str], ScramAccount | None]
"""Returns the account of a delegation token by its id."""


class State(enum.Enum):
    """The states of a connection that has to log in."""

    HANDSHAKE_OR_VERSIONS = "waits for ApiVersions or SaslHandshake"
    HANDSHAKE = "waits for SaslHandshake"
    AUTHENTICATE = "exchanges messages"
    COMPLETE = "has logged in"
    REAUTHENTICATE = "exchanges messages again"
    FAILED = "has failed"


class Event(enum.Enum):
    """The events that change the state."""

    VERSIONS = "ApiVersions was answered"
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
        State.COMPLETE: {Event.MECHANISM: State.REAUTHENTICATE},
        State.REAUTHENTICATE: {Event.LOG_IN: State.COMPLETE} | _FAILS,
        State.FAILED: {},
    },
)
_ALLOWED = {
    State.HANDSHAKE_OR_VERSIONS: (_API_VERSIONS, _SASL_HANDSHAKE),
    State.HANDSHAKE: (_SASL_HANDSHAKE,),
    State.AUTHENTICATE: (_SASL_AUTHENTICATE,),
    State.REAUTHENTICATE: (_SASL_AUTHENTICATE,),
    State.FAILED: (),
}
"""The APIs that a connection may use in each state; all of them in a session that has not ended."""
_SHORTEST_SESSION_MS = 1000
"""A client may not begin to log in again more often."""


class Mechanism(NamedTuple):
    """A mechanism that a listener offers.

    Attributes:
        start: starts the broker's side of an exchange.
        max_session_ms: how long a session may last; 0 for no limit.
        blocks: whether a step of the exchange may take long, so that the event loop must not make it.
    """

    start: Callable[[], Server]
    max_session_ms: int = 0
    blocks: bool = False


class Answer(NamedTuple):
    """The broker's response to a message of a mechanism.

    Attributes:
        token: the message of the broker; None for none.
        session_lifetime_ms: after the last message, when the client has to log in again; 0 for never.
    """

    token: bytes | None
    session_lifetime_ms: int = 0


class Authenticator:
    """The login of one connection.

    Parameters:
        mechanisms: what the listener offers, by name.
        clock: returns milliseconds.

    Attributes:
        principal: who the client is; anonymous until it has logged in.
        by_token: whether it has logged in with a delegation token, with which it may not manage tokens.
        takes_tokens: whether the next frames are the mechanism's messages without a request around them, as after
            SaslHandshake version 0.
    """

    def __init__(self, mechanisms: Mapping[str, Mechanism], clock: Callable[[], int]) -> None:
        self.principal = ANONYMOUS
        self.by_token = False
        self.takes_tokens = False
        self._mechanisms = mechanisms
        self._clock = clock
        self._state = State.HANDSHAKE_OR_VERSIONS
        self._exchange: Server | None = None
        self._mechanism = ""
        self._requested = ""
        self._session_ends_ms: int | None = None
        self._last_begun_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the client has logged in."""
        return self._state in (State.COMPLETE, State.REAUTHENTICATE)

    @property
    def has_begun(self) -> bool:
        """Whether the client has asked for a mechanism; if not, it may not know that it has to log in."""
        return self._state not in (State.HANDSHAKE_OR_VERSIONS, State.HANDSHAKE)

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms that the listener offers."""
        return list(self._mechanisms)

    def check_allowed(self, api_key: int) -> None:
        """Check that a request may come now.

        Raises:
            IllegalSaslStateError: it may not; the connection must be closed.
        """
        if self._state is State.COMPLETE:
            if self._session_ends_ms is not None and not (api_key == _SASL_HANDSHAKE and self._may_begin_again()):
                self._check_session(self._session_ends_ms)
            return
        if api_key not in _ALLOWED[self._state]:
            missing = "logged in again" if self._state is State.REAUTHENTICATE else "logged in"
            raise IllegalSaslStateError(f"a request of API {api_key} from a client that has not {missing}")

    def on_versions(self) -> None:
        """Record that the client has received the versions of this broker's APIs, for which it may ask only once.

        A client that has asked in a version that this broker lacks may ask again.
        """
        if self._state is State.HANDSHAKE_OR_VERSIONS:
            self._change(Event.VERSIONS)

    def _check_session(self, ends_ms: int) -> None:
        if self._clock() > ends_ms:
            raise IllegalSaslStateError("its session has ended, and the client has not logged in again")

    def _may_begin_again(self) -> bool:
        if self._session_ends_ms is None:
            return False
        return self._last_begun_ms is None or self._clock() - self._last_begun_ms >= _SHORTEST_SESSION_MS

    def on_handshake(self, mechanism: str, version: int) -> None:
        """Handle SaslHandshake.

        Raises:
            UnsupportedSaslMechanismError: the listener does not offer the mechanism.
            IllegalSaslStateError: the client has logged in before, and its session does not end, or it has begun to
                log in again less than a second ago.
        """
        if self.is_complete:
            if not self._may_begin_again():
                raise IllegalSaslStateError("SaslHandshake request received after successful authentication")
            self._last_begun_ms = self._clock()
        offered = self._mechanisms.get(mechanism)
        self._change(Event.MECHANISM)
        if offered is None:
            self._change(Event.FAIL)
            raise UnsupportedSaslMechanismError(f"Unsupported SASL mechanism {mechanism}")
        self._requested = mechanism
        self._exchange = offered.start()
        next(self._exchange)
        self.takes_tokens = version == 0

    def on_token(self, token: bytes) -> Answer:
        """Handle a message of the mechanism; return the response.

        Raises:
            IllegalSaslStateError: the client has logged in before.
            KafkaError: see `end_step`.
        """
        return self.end_step(self.begin_step(token)())

    @property
    def blocks(self) -> bool:
        """Whether the step of the next message may take long."""
        return self._exchange is not None and self._mechanisms[self._requested].blocks

    def begin_step(self, token: bytes) -> Callable[[], StepResult]:
        """Return what makes the step of a message of the mechanism; any thread may call it, once.

        Raises:
            IllegalSaslStateError: the client has logged in before.
        """
        exchange = self._exchange
        if exchange is None:
            raise IllegalSaslStateError("SaslAuthenticate request received after successful authentication")
        if self._mechanism and self._requested != self._mechanism:
            change = SaslAuthenticationError(
                f"SASL mechanism '{self._requested}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._mechanism}'"
            )
            return lambda: change

        def step() -> StepResult:
            try:
                return exchange.send(token)
            except StopIteration as done:
                login: Login = done.value
                return login
            except KafkaError as error:
                return error

        return step

    def end_step(self, result: StepResult) -> Answer:
        """Handle the result of a step; return the response.

        Raises:
            SaslAuthenticationError: the client could not prove who it is, or is not who it was.
            DisconnectedError: the client should try again; the connection must be closed.
        """
        try:
            if isinstance(result, UnexplainedRefusalError):
                raise self._unexplained() from result
            if isinstance(result, KafkaError):
                raise result
            return Answer(result.message, self._log_in(result)) if isinstance(result, Login) else Answer(result)
        except KafkaError:
            self._fail()
            raise

    def _unexplained(self) -> SaslAuthenticationError:
        """Return what the client learns of a refusal, which is the same for a wrong password and an unknown user."""
        attempt = "re-authentication" if self._mechanism else "authentication"
        return SaslAuthenticationError(
            f"Authentication failed during {attempt} due to invalid credentials with SASL mechanism {self._requested}"
        )

    def _fail(self) -> None:
        self.takes_tokens = False
        self._exchange = None
        self._change(Event.FAIL)

    def _log_in(self, login: Login) -> int:
        """Complete a login, and return the lifetime of the session; 0 if it does not end.

        Kafka returns 0 for a credential that has expired, too, and closes the connection at the next request.
        """
        principal = Principal("User", login.user)
        if self._mechanism and principal != self.principal:
            was, wants = (f"{each.type}.{each.name}" for each in (self.principal, principal))
            raise SaslAuthenticationError(f"Cannot change principals during re-authentication from {was}: {wants}")
        self.principal = principal
        self.by_token = login.by_token
        self.takes_tokens = False
        self._exchange = None
        self._mechanism = self._requested
        now, longest_ms = self._clock(), self._mechanisms[self._requested].max_session_ms
        ends = [now + longest_ms] if longest_ms > 0 else []
        if login.expires_ms is not None:
            ends.append(login.expires_ms)
        self._session_ends_ms = min(ends, default=None)
        self._change(Event.LOG_IN)
        return 0 if self._session_ends_ms is None else max(self._session_ends_ms - now, 0)

    def _change(self, event: Event) -> None:
        self._state = STATES.next_state(self._state, event)


class Users(NamedTuple):
    """Who may log in on a listener.

    Attributes:
        plain: passwords by name.
        scram: looks up what is stored for SCRAM.
        tokens: looks up delegation tokens, with which clients log in by SCRAM.
        secret: makes up credentials of users that do not exist; the same for as long as the broker runs.
        others: the mechanisms without passwords, by name.
    """

    plain: Mapping[str, Secret]
    scram: ScramLookup
    tokens: TokenLookup
    secret: bytes
    others: Mapping[str, Mechanism] = {}

    def mechanisms(
        self, enabled: list[str], max_session_ms: Callable[[str], int] = lambda mechanism: 0
    ) -> dict[str, Mechanism]:
        """Return the mechanisms by name.

        Parameters:
            enabled: their names.
            max_session_ms: returns how long a session of a mechanism may last; 0 for no limit.

        Raises:
            ConfigError: a mechanism is not implemented.
        """
        missing = [name for name in enabled if name not in WITH_PASSWORD and name not in self.others]
        if missing or not enabled:
            raise ConfigError(
                f"sasl.enabled.mechanisms: {missing[0] if missing else 'none'} is not implemented; set it to some of "
                f"{', '.join(IMPLEMENTED)}"
            )
        return {name: self._mechanism(name)._replace(max_session_ms=max_session_ms(name)) for name in enabled}

    def _mechanism(self, name: str) -> Mechanism:
        if name == PLAIN:
            return Mechanism(lambda: plain_server(self.plain))
        if name in self.others:
            return self.others[name]
        return Mechanism(partial(self._scram_server, MECHANISMS[name]))

    def _scram_server(self, mechanism: ScramMechanism) -> Server:
        account, message = yield from scram_server(
            mechanism, partial(self._account, mechanism), secrets.token_urlsafe(24)
        )
        return Login(account.user, message, account.expires_ms, account.is_token)

    def _account(self, mechanism: ScramMechanism, name: str, is_token: bool) -> ScramAccount:
        """Return the account of a user or a token; a made-up one if it does not exist."""
        if is_token:
            token = self.tokens(mechanism, name)
            if token is not None:
                return token
        else:
            credential = self.scram(mechanism, name)
            if credential is not None:
                return ScramAccount(name, credential)
        salted, salt = (hmac.digest(self.secret, kind + name.encode(), mechanism.hash) for kind in (b"p", b"s"))
        return ScramAccount(name, credential_of(mechanism, salted, salt_of(int.from_bytes(salt)), MIN_ITERATIONS))


def plain_server(users: Mapping[str, Secret]) -> Server:
    """Yield an empty message, receive the client's, and return the login (RFC 4616).

    Raises:
        SaslAuthenticationError: the message is malformed, or the password is wrong.
    """
    token = yield b""
    # As in Kafka: other bytes than UTF-8 are a password that nobody has, and it counts no further than to four.
    parts = token.decode(errors="replace").split("\0", 4)[:4]
    if len(parts) != 3:
        raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    authorization, user, password = parts
    if not user:
        raise SaslAuthenticationError("Authentication failed: username not specified")
    if not password:
        raise SaslAuthenticationError("Authentication failed: password not specified")
    expected = users.get(user)
    # Compare in any case, so that the time does not tell who exists.
    known = (expected or Secret("\0")).reveal().encode(errors="surrogatepass")
    if not hmac.compare_digest(known, password.encode()):
        raise SaslAuthenticationError("Authentication failed: Invalid username or password")
    if authorization not in ("", user):
        raise SaslAuthenticationError(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    return Login(user)
