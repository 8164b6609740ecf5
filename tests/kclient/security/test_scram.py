"""SCRAM on both sides: the example of RFC 7677, refusals, and messages that are not SCRAM's."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import SaslAuthenticationError
from kclient.security.refusals import UnexplainedRefusalError
from kclient.security.sasl import PasswordLogin
from kclient.security.scram import (
    MAX_ITERATIONS,
    MECHANISMS,
    ScramAccount,
    ScramCredential,
    ScramMechanism,
    credential_of,
    new_salt,
    salt_of,
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
    with pytest.raises(UnexplainedRefusalError, match="first SCRAM message is malformed"):
        log_in(user, PASSWORD)


def test_a_wrong_password_is_refused_and_the_client_does_not_learn_why() -> None:
    with pytest.raises(UnexplainedRefusalError, match="the password of 'alice' is wrong, or there is no such user"):
        log_in("alice", "crayon")


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
        (b"", b"", "first SCRAM message"),
        (b"y,,n=a,r=b", b"", "first SCRAM message"),
        (b"n,,n=a", b"", "first SCRAM message"),
        (b"n,,m=,n=a,r=b", b"", "first SCRAM message"),
        (b"\xff", b"", "first SCRAM message"),
        (b"n,,n=a,r=c", b"", "last SCRAM message is malformed"),
        (b"n,,n=a,r=c", b"c=biws,r=other,p=AAAA", "another nonce"),
        (b"n,,n=a,r=c", b"c=biws,r=cserver,p=AAAA", "is wrong, or there is no such user"),
        (b"n,,n=a,r=c", b"c=biws,r=cserver,p=AAA", "is no base64"),
    ],
    ids=lambda value: value.decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_server_refuses_messages_of_another_form_without_a_reason(first: bytes, final: bytes, text: str) -> None:
    server = scram_server(SHA_256, account, "server")
    next(server)
    with pytest.raises(UnexplainedRefusalError, match=text):
        deque(map(server.send, (first, final)))


@pytest.mark.parametrize("authzid", ["b", "a=2Cb"])
def test_a_server_refuses_a_client_that_wants_to_be_another_user(authzid: str) -> None:
    # Kafka compares the name as it is with one without escapes.
    server = scram_server(SHA_256, account, "server")
    next(server)
    with pytest.raises(SaslAuthenticationError, match="authorization id that is different from username"):
        server.send(f"n,a={authzid},n=a=2Cb,r=c".encode())


@pytest.mark.parametrize(
    ("first", "final", "is_accepted"),
    [
        ("n,,n=a,r=c", "", True),
        ("n,a=a,n=a,r=c", "", True),
        ("n,,n=a,r=c,x=1", "", True),
        ("n,,m=1,n=a,r=c", "", False),
        ("n,,n=a,r=c", ",x=1", False),
    ],
    ids=["usual", "own id", "extension", "reserved", "last extension"],
)
def test_a_client_must_sign_what_kafka_signs(first: str, final: str, is_accepted: bool) -> None:
    server = scram_server(SHA_256, account, "server")
    next(server)
    server_first = server.send(first.encode()).decode()
    bare = f"c=biws,r=cserver{final}"
    signed = f"{first.split(',', 2)[2]},{server_first},{bare}".encode()
    client_key = hmac.digest(salted_password(SHA_256, PASSWORD, b"salt", 4096), b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
    proof = b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True))).decode()
    with pytest.raises(StopIteration if is_accepted else UnexplainedRefusalError):
        server.send(f"{bare},p={proof}".encode())


def test_salts_look_like_those_of_kafka() -> None:
    assert salt_of(0) == b"0"
    assert salt_of(36 * 35 + 10) == b"za"
    assert int(salt_of(2**200 - 1), 36) == 2**130 - 1
    assert re.fullmatch(rb"[0-9a-z]{20,26}", new_salt())


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


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_network_thread_does_not_hash_a_password(mechanism: str) -> None:
    started = PasswordLogin(mechanism, "alice", Secret(PASSWORD)).start("kafka")
    assert started.blocks
