"""SASL of a client: who logs in, and the messages of the exchange.

Elsewhere: SCRAM's computations (`scram`), tokens (`oauth`), tickets (`kerberos`), signatures (`aws`), the requests that
carry the messages (`kclient.net.sasl`), and the side of the broker (`refbroker.security.sasl`).
"""

from __future__ import annotations

import secrets
from collections.abc import Generator
from typing import NamedTuple, Protocol

from kclient.errors import ConfigError, SaslAuthenticationError
from kclient.security.scram import MECHANISMS, scram_client
from kclient.security.secret import Secret

PLAIN = "PLAIN"
OAUTHBEARER = "OAUTHBEARER"
GSSAPI = "GSSAPI"
AWS_MSK_IAM = "AWS_MSK_IAM"
WITH_PASSWORD = (PLAIN, *MECHANISMS)
"""The mechanisms that take a user and a password."""
IMPLEMENTED = (*WITH_PASSWORD, OAUTHBEARER, GSSAPI, AWS_MSK_IAM)


class ExplainedRefusalError(SaslAuthenticationError):
    """A refusal that comes with what to check, in place of the options of the login.

    Parameters:
        reason: what was refused.
        advice: what to check.
    """

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.advice = advice


Exchange = Generator[bytes, bytes, bytes | None]
"""Yields the messages of the client and receives those of the broker; returns a last one to which there is no answer.

If the broker refuses, its error is thrown in; the exchange may raise another one instead.
"""


class StartedExchange(NamedTuple):
    """A new exchange.

    Attributes:
        exchange: the messages.
        blocks: whether a step of the exchange may take long, so that the network thread must not make it.
    """

    exchange: Exchange
    blocks: bool


class Login(Protocol):
    """Who logs in, and how; one for all connections of a client."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism."""

    @property
    def who(self) -> str:
        """Who logs in, for errors: "the user 'alice'"."""

    @property
    def options(self) -> str:
        """The options to check if the broker refuses, for errors."""

    @property
    def awaits(self) -> str:
        """What a step of the exchange waits for that may take long, for errors."""

    def start(self, host: str) -> StartedExchange:
        """Return the client's side of a new exchange.

        Parameters:
            host: the name of the broker's host.
        """


class PasswordLogin(NamedTuple):
    """A login with a user and a password, by PLAIN or SCRAM.

    Attributes:
        mechanism: its name.
        user, password: who logs in; the id and the HMAC of a delegation token.
        is_token: whether they are those of a delegation token.
    """

    mechanism: str
    user: str
    password: Secret
    is_token: bool = False

    def check(self) -> None:
        """Check that the user and the password can be sent.

        Raises:
            ConfigError: they cannot.
        """
        for text in (self.user, self.password.reveal()):
            if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
                # Not quoted: it may be the password.
                raise ConfigError(
                    "the user or the password of SASL contains a NUL character, or bytes that are not UTF-8; check "
                    "where it was read from"
                )

    @property
    def who(self) -> str:
        """See Login."""
        return f"the user {self.user!r}"

    @property
    def options(self) -> str:
        """See Login."""
        return "sasl_mechanism, sasl_username and sasl_password"

    @property
    def awaits(self) -> str:
        """See Login."""
        return f"the computation of {self.mechanism}"

    def start(self, host: str) -> StartedExchange:
        """See Login."""
        if self.mechanism == PLAIN:
            return StartedExchange(_plain(self.user, self.password), blocks=False)
        nonce = secrets.token_urlsafe(24)
        exchange = scram_client(MECHANISMS[self.mechanism], self.user, self.password, nonce, is_token=self.is_token)
        # The broker chooses how often the password is hashed, up to what takes a second.
        return StartedExchange(exchange, blocks=True)


def _plain(user: str, password: Secret) -> Generator[bytes, bytes, None]:
    yield f"\0{user}\0{password.reveal()}".encode()
