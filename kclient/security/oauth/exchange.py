"""The messages of OAUTHBEARER (RFC 7628), of the client and of the broker.

The client sends its token. A broker that refuses it sends a JSON object that says why; the client answers with the
byte 1, and then the login fails. Elsewhere: whether a token is valid (`refbroker.security.oauth`). Source: KIP-255,
Kafka's OAuthBearerClientInitialResponse and OAuthBearerSaslServer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple, TypeVar

from kclient.errors import SaslAuthenticationError
from kclient.security.oauth.tokens import OAuthToken
from kclient.security.refusals import UnexplainedRefusalError

T = TypeVar("T")

_SEPARATOR = "\x01"
_ACKNOWLEDGE = b"\x01"
"""What a client sends after the broker has told it the error."""
# Possessive, because an attempt to match otherwise takes memory for each character.
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]++=[\x21-\x7e \t\r\n]++\x01)*+)\x01", re.ASCII
)
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]++=*+)", re.ASCII)


class ClientMessage(NamedTuple):
    """The first message of a client.

    Attributes:
        token: the token.
        authorization_id: the user that the client wants to be; empty for that of the token.
        extensions: SASL extensions.
    """

    token: str
    authorization_id: str
    extensions: Mapping[str, str]

    def __repr__(self) -> str:
        return f"ClientMessage([hidden], {self.authorization_id!r})"


class TokenRefusedError(Exception):
    """A broker does not accept a token.

    Parameters:
        reason: why, for the broker's log.
        response: the JSON object to send, which does not tell the client why.
    """

    def __init__(self, reason: str, response: str = '{"status":"invalid_token"}') -> None:
        super().__init__(reason)
        self.response = response


def oauth_client(token: OAuthToken) -> Generator[bytes, bytes, None]:
    """Yield the client's messages and receive the broker's; the end means that the broker accepts the token.

    Raises:
        SaslAuthenticationError: the broker wants more than OAUTHBEARER has.
    """
    extensions = "".join(f"{name}={value}{_SEPARATOR}" for name, value in token.extensions.items())
    answer = yield f"n,,{_SEPARATOR}auth=Bearer {token.value.reveal()}{_SEPARATOR}{extensions}{_SEPARATOR}".encode()
    if answer:
        # The broker has refused, and repeats its reason in the error that follows.
        yield _ACKNOWLEDGE
        raise SaslAuthenticationError(f"the broker refused the token: {answer.decode(errors='replace')}")


def oauth_server(
    accept: Callable[[ClientMessage], T],
) -> Generator[bytes, bytes, tuple[T, bytes]]:
    """Yield an empty message, then the broker's; return what `accept` has returned, and the last message.

    Parameters:
        accept: returns who the token is for.

    Raises:
        UnexplainedRefusalError: the client's message is malformed.
        SaslAuthenticationError: its token was refused.
    """
    message = yield b""
    while True:
        try:
            return accept(parse_client_message(message)), b""
        except TokenRefusedError as refused:
            refusal = refused
        message = yield refusal.response.encode()
        if message == _ACKNOWLEDGE:
            raise SaslAuthenticationError(refusal.response) from refusal
        # As in Kafka, a client may send another token instead.


def parse_client_message(message: bytes) -> ClientMessage:
    """Return the parts of a client's first message.

    Raises:
        UnexplainedRefusalError: it is malformed.
    """
    found = _FIRST.fullmatch(message.decode(errors="replace"))
    if found is None:
        raise UnexplainedRefusalError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split(_SEPARATOR) if pair)
    auth = pairs.pop("auth", None)
    if auth is None:
        raise UnexplainedRefusalError("Invalid OAUTHBEARER client first message: 'auth' not specified")
    bearer = _AUTH.fullmatch(auth)
    if bearer is None or bearer["scheme"].lower() != "bearer":
        raise UnexplainedRefusalError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
    return ClientMessage(bearer["token"], found["authzid"] or "", pairs)
