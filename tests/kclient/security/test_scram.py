"""SCRAM on both sides: the example of RFC 7677, refusals, and messages that are not SCRAM's."""

from __future__ import annotations

from base64 import b64decode
from collections import deque
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import SaslAuthenticationError
from kclient.security.scram import (
    MAX_ITERATIONS,
    MECHANISMS,
    ScramAccount,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
    scram_client,
    scram_server,
)
from kclient.security.secret import Secret

SHA_256, SHA_512 = MECHANISMS.values()
PASSWORD = "pencil"


def credential(mechanism: ScramMechanism = SHA_256, password: str = PASSWORD) -> ScramCredential:
    return credential_of(mechanism, salted_password(mechanism, password, b"salt", 4096), b"salt", 4096)


def account(name: str, is_token: bool, mechanism: ScramMechanism = SHA_256) -> ScramAccount:
    return ScramAccount(name, credential(mechanism), is_token)


def log_in(
    user: str,
    password: str,
    mechanism: ScramMechanism = SHA_256,
    change: Callable[[bytes], bytes] = lambda message: message,
    *,
    is_token: bool = False,
) -> ScramAccount:
    """Let both sides talk; return the account that the server has found.

    Parameters:
        change: what happens to each message of the server.
    """
    client = scram_client(mechanism, user, Secret(password), "client", is_token=is_token)
    server = scram_server(mechanism, partial(account, mechanism=mechanism), "server")
    next(server)
    message = next(client)
    try:
        while True:
            message = client.send(change(server.send(message)))
    except StopIteration as done:
        found, last = done.value
    with pytest.raises(StopIteration):
        client.send(change(last))
    assert isinstance(found, ScramAccount)
    return found


def test_the_example_of_rfc_7677() -> None:
    client = scram_client(SHA_256, "user", Secret(PASSWORD), "rOprNGfwEbeRWgbNEkqO")
    assert next(client) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert client.send(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()) == (
        f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    with pytest.raises(StopIteration):
        client.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_the_server_of_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    stored = credential_of(SHA_256, salted_password(SHA_256, PASSWORD, salt, 4096), salt, 4096)
    server = scram_server(SHA_256, lambda user, is_token: ScramAccount(user, stored), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    next(server)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = server.send(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    with pytest.raises(StopIteration) as done:
        server.send(f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode())
    assert done.value.value == (ScramAccount("user", stored), b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "a,b=c", "=2C", "a b"])
def test_both_sides_agree_on_the_user(mechanism: ScramMechanism, user: str) -> None:
    assert log_in(user, PASSWORD, mechanism).user == user


@pytest.mark.parametrize("user", ["Zoë", "漢字"])
def test_names_beyond_ascii_are_refused_as_in_kafka(user: str) -> None:
    with pytest.raises(SaslAuthenticationError, match="Invalid SASL/SCRAM client first message format"):
        log_in(user, PASSWORD)


def test_a_wrong_password_is_refused_as_in_kafka() -> None:
    with pytest.raises(SaslAuthenticationError) as caught:
        log_in("alice", "crayon")
    assert caught.value.message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    )


def test_a_delegation_token_says_what_it_is() -> None:
    client = scram_client(SHA_512, "id", Secret("hmac"), "nonce", is_token=True)
    assert next(client) == b"n,,n=id,r=nonce,tokenauth=true"


@pytest.mark.parametrize("is_token", [True, False], ids=["token", "user"])
def test_the_server_learns_whether_a_name_is_the_id_of_a_token(is_token: bool) -> None:
    assert log_in("id", PASSWORD, SHA_512, is_token=is_token).is_token == is_token


@pytest.mark.parametrize(
    ("extensions", "is_token"),
    [
        ("", False),
        (",tokenauth=TRUE", True),
        (",tokenauth=yes", False),
        (",other=a=b,tokenauth=true", True),
        (",tokenauth=true,tokenauth=false", False),
    ],
    ids=str,
)
def test_extensions_are_read_as_in_kafka(extensions: str, is_token: bool) -> None:
    asked = []

    def lookup(name: str, token: bool) -> ScramAccount:
        asked.append((name, token))
        return account(name, token)

    server = scram_server(SHA_256, lookup, "server")
    next(server)
    server.send(f"n,,n=id,r=nonce{extensions}".encode())
    assert asked == [("id", is_token)]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (b"r=client", b"r=other", "nonce does not continue"),
        (b"r=clientserver", b"r=client", "nonce does not continue"),
        (b"i=4096", b"i=4095", r"wants 4095 iterations of SCRAM; from 4096 to"),
        (b"i=4096", f"i={MAX_ITERATIONS + 1}".encode(), "iterations of SCRAM"),
        (b"i=4096", b"i=99999999999999", "first SCRAM message is malformed"),
        (b"s=c2FsdA==", b"s=c2FsdA", "invalid base64"),
        (b"s=", b"x=", "first SCRAM message is malformed"),
        (b"v=", b"w=", "last SCRAM message is malformed"),
        (b"r=client", b"\xff", "not UTF-8"),
    ],
    ids=lambda value: value.decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_client_refuses_a_server_that_cheats(old: bytes, new: bytes, text: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=text):
        log_in("alice", PASSWORD, change=lambda message: message.replace(old, new))


def test_a_client_refuses_a_server_that_does_not_know_the_password() -> None:
    def forge(message: bytes) -> bytes:
        return b"v=" + b"A" * 43 + b"=" if message.startswith(b"v=") else message

    with pytest.raises(SaslAuthenticationError, match="does not know the password"):
        log_in("alice", PASSWORD, change=forge)
    with pytest.raises(SaslAuthenticationError, match="the broker refused: other-error"):
        log_in("alice", PASSWORD, change=lambda message: b"e=other-error" if message[:2] == b"v=" else message)


@pytest.mark.parametrize(
    ("first", "final", "text"),
    [
        (b"", b"", "client first message format"),
        (b"y,,n=a,r=b", b"", "client first message format"),
        (b"n,,n=a", b"", "client first message format"),
        (b"n,a=b,n=a,r=c", b"", "authorization id that is different"),
        (b"\xff", b"", "not UTF-8"),
        (b"n,,n=a,r=c", b"", "client final message format"),
        (b"n,,n=a,r=c", b"c=biws,r=other,p=AAAA", "Invalid client nonce"),
        (b"n,,n=a,r=c", b"c=biws,r=cserver,p=AAAA", "invalid credentials"),
        (b"n,,n=a,r=c", b"c=biws,r=cserver,p=AAA", "invalid base64"),
    ],
    ids=lambda value: value.decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_server_refuses_messages_of_another_form(first: bytes, final: bytes, text: str) -> None:
    server = scram_server(SHA_256, account, "server")
    next(server)
    with pytest.raises(SaslAuthenticationError, match=text):
        deque(map(server.send, (first, final)))


@given(st.lists(st.binary(max_size=60), min_size=2, max_size=2), st.booleans())
def test_any_bytes_are_refused_and_nothing_else_happens(messages: list[bytes], begin_well: bool) -> None:
    server = scram_server(SHA_256, account, "server")
    next(server)
    with pytest.raises(SaslAuthenticationError):
        deque(map(server.send, [b"n,,n=a,r=c"] * begin_well + messages))
    client = scram_client(SHA_256, "alice", Secret(PASSWORD), "client")
    next(client)
    with pytest.raises(SaslAuthenticationError):
        client.send(messages[0])


def test_credentials_and_mechanisms_show_no_keys() -> None:
    assert repr(credential()) == "ScramCredential(iterations=4096, [hidden])"
