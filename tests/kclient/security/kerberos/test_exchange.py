"""The messages of GSSAPI, both sides with each other and with a peer that says something else."""

from __future__ import annotations

import pytest

from kclient.errors import SaslAuthenticationError
from kclient.security.kerberos.exchange import gssapi_client, gssapi_server


class PlainContext:
    """A security context without signatures, whose tokens are those of the test.

    Parameters:
        tokens: what `step` returns, one after the other; the context is complete after the last one.
    """

    peer = "alice@REALM"

    def __init__(self, *tokens: bytes) -> None:
        self._tokens = list(tokens)
        self.received: list[bytes | None] = []

    @property
    def is_complete(self) -> bool:
        return not self._tokens

    def step(self, token: bytes | None) -> bytes:
        self.received.append(token)
        return self._tokens.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return message

    def unwrap(self, message: bytes) -> bytes:
        return message


def test_a_client_chooses_no_security_layer() -> None:
    context = PlainContext(b"AP-REQ", b"")
    client = gssapi_client(context)
    assert next(client) == b"AP-REQ"
    assert client.send(b"AP-REP") == b""
    with pytest.raises(StopIteration) as end:
        client.send(b"\x07\x00\xff\xff")
    assert end.value.value == b"\x01\x00\x00\x00"
    assert context.received == [None, b"AP-REP"]


@pytest.mark.parametrize(
    ("offer", "text"),
    [(b"\x06\x00\xff\xff", "demands a security layer"), (b"", "0 bytes instead of 4"), (b"\x01\0\0\0\0", "5 bytes")],
    ids=["other layers", "empty", "long"],
)
def test_an_offer_that_a_client_cannot_use_ends_the_login(offer: bytes, text: str) -> None:
    client = gssapi_client(PlainContext(b"AP-REQ"))
    assert next(client) == b"AP-REQ"
    with pytest.raises(SaslAuthenticationError, match=text):
        client.send(offer)


@pytest.mark.parametrize("choice", [b"\x01\0\0\0", b"\x01\x01\0\0bob@REALM"], ids=["no name", "another name"])
def test_a_broker_takes_the_user_from_the_ticket(choice: bytes) -> None:
    server = gssapi_server(lambda: PlainContext(b"AP-REP"))
    assert next(server) == b""
    assert server.send(b"AP-REQ") == b"AP-REP"
    assert server.send(b"") == b"\x01\0\0\0"
    with pytest.raises(StopIteration) as end:
        server.send(choice)
    assert end.value.value == "alice@REALM"


def test_without_mutual_authentication_the_offer_follows_at_once() -> None:
    server = gssapi_server(lambda: PlainContext(b""))
    next(server)
    assert server.send(b"AP-REQ") == b"\x01\0\0\0"


@pytest.mark.parametrize("choice", [b"\x02\0\0\0", b"\x01", b""], ids=["another layer", "short", "empty"])
def test_a_choice_that_was_not_offered_is_refused(choice: bytes) -> None:
    server = gssapi_server(lambda: PlainContext(b""))
    next(server)
    server.send(b"AP-REQ")
    with pytest.raises(SaslAuthenticationError, match="a security layer that was not offered"):
        server.send(choice)


def test_a_client_that_sends_too_much_is_refused() -> None:
    server = gssapi_server(lambda: PlainContext(b"AP-REP"))
    next(server)
    server.send(b"AP-REQ")
    with pytest.raises(SaslAuthenticationError, match="has sent more than GSSAPI has"):
        server.send(b"more")
