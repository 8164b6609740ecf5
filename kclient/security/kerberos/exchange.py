"""The messages of GSSAPI (RFC 4752), of the client and of the broker.

Both sides first establish a security context. Then the broker offers security layers, of which Kafka uses none, and the
client chooses that. The last message is the client's; Kafka's broker sends nothing after it. Elsewhere: the security
contexts (`library`). Source: RFC 4752, the JDK's GssKrb5Client and GssKrb5Server.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

from kclient.errors import SaslAuthenticationError
from kclient.security.refusals import UnexplainedRefusalError

_NO_LAYER = 1
_NO_LAYER_ALONE = b"\x01\x00\x00\x00"
"""A set of layers that has only this one, and the largest message of a layer, which does not apply."""


class Context(Protocol):
    """One side of a security context."""

    @property
    def is_complete(self) -> bool:
        """Whether it is established."""

    @property
    def peer(self) -> str:
        """The name of the client's principal, on the side of the broker."""

    def step(self, token: bytes | None) -> bytes:
        """Take a token of the other side, None for none, and return the next one, which may be empty.

        Raises:
            KerberosFailureError: the context cannot be established.
        """

    def wrap(self, message: bytes) -> bytes:
        """Return a message with a signature.

        Raises:
            KerberosFailureError: the context has expired.
        """

    def unwrap(self, message: bytes) -> bytes:
        """Return a message of the other side without its signature.

        Raises:
            KerberosFailureError: the signature is wrong.
        """


def gssapi_client(context: Context) -> Generator[bytes, bytes, bytes]:
    """Yield the client's messages and receive the broker's; return the last one.

    The client asks for no other user than that of its ticket. Java's client repeats that user's name, and Kafka's
    broker ignores it.

    Raises:
        KerberosFailureError: the context cannot be established.
        SaslAuthenticationError: the broker demands a security layer, or its message is malformed.
    """
    token = context.step(None)
    while not context.is_complete:
        token = context.step((yield token))
    layers = context.unwrap((yield token))
    if len(layers) != len(_NO_LAYER_ALONE):
        raise SaslAuthenticationError(f"the broker's offer of security layers has {len(layers)} bytes instead of 4")
    if not layers[0] & _NO_LAYER:
        raise SaslAuthenticationError("the broker demands a security layer of SASL, and Kafka has none")
    return context.wrap(_NO_LAYER_ALONE)


def gssapi_server(accept: Callable[[], Context]) -> Generator[bytes, bytes, str]:
    """Yield an empty message, then the broker's; return the name of the client's principal.

    Parameters:
        accept: returns a new context, when the client's first message has arrived.

    Raises:
        KerberosFailureError: the context cannot be established.
        UnexplainedRefusalError: a message of the client is malformed.
    """
    first = yield b""
    context = accept()
    token = context.step(first)
    while not context.is_complete:
        token = context.step((yield token))
    if token and (yield token):
        raise UnexplainedRefusalError("the client has sent more than GSSAPI has, after the context was established")
    chosen = context.unwrap((yield context.wrap(_NO_LAYER_ALONE)))
    # The name of another user may follow, which Kafka ignores.
    if len(chosen) < len(_NO_LAYER_ALONE) or chosen[0] != _NO_LAYER:
        raise UnexplainedRefusalError("the client has chosen a security layer that was not offered")
    return context.peer
