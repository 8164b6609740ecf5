"""The login of a connection: what may come when, and who is refused."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import deque

import pytest

from kclient.errors import ConfigError, IllegalSaslStateError, SaslAuthenticationError, UnsupportedSaslMechanismError
from kclient.security.scram import (
    MECHANISMS,
    ScramAccount,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salted_password,
    scram_client,
)
from kclient.security.secret import Secret
from refbroker.runtime.clock import Clock
from refbroker.security.principals import ANONYMOUS
from refbroker.security.sasl import STATES, Authenticator, State, Users

HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA = 17, 18, 36, 3


def scram(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    if user != "bob":
        return None
    return credential_of(mechanism, salted_password(mechanism, "builder", b"salt", 4096), b"salt", 4096)


NOW_MS = 1_700_000_000_000
TOKENS = {"of-alice": ("alice", NOW_MS + 30_000), "of-bob": ("bob", NOW_MS + 90_000), "expired": ("alice", NOW_MS - 1)}


def token(mechanism: ScramMechanism, token_id: str) -> ScramAccount | None:
    if token_id not in TOKENS:
        return None
    owner, expires_ms = TOKENS[token_id]
    stored = credential_of(mechanism, salted_password(mechanism, "hmac", b"salt", 4096), b"salt", 4096)
    return ScramAccount(owner, stored, is_token=True, expires_ms=expires_ms)


USERS = Users({"alice": Secret("wonder"), "carol": Secret("sing")}, scram, token, b"secret")


def authenticator(max_session_ms: int = 0, clock: Clock | None = None) -> Authenticator:
    mechanisms = USERS.mechanisms(["PLAIN", *MECHANISMS], lambda mechanism: max_session_ms)
    return Authenticator(mechanisms, clock or Clock())


def chosen(mechanism: str = "PLAIN", version: int = 1) -> Authenticator:
    login = authenticator()
    login.check_allowed(HANDSHAKE)
    login.on_handshake(mechanism, version)
    return login


def test_every_state_is_in_the_table() -> None:
    assert set(STATES.states) == set(State)


def test_a_login_with_plain() -> None:
    login = authenticator()
    # The first version is one that the broker does not have.
    login.check_allowed(VERSIONS)
    login.check_allowed(VERSIONS)
    login.on_versions()
    login.check_allowed(HANDSHAKE)
    login.on_handshake("PLAIN", 1)
    login.check_allowed(AUTHENTICATE)
    assert (login.is_complete, login.principal) == (False, ANONYMOUS)
    assert login.on_token(b"\0alice\0wonder") == (b"", 0)
    assert (login.is_complete, login.principal) == (True, ("User", "alice"))
    login.check_allowed(METADATA)


@pytest.mark.parametrize(
    ("before", "api"),
    [
        ([], METADATA),
        ([], AUTHENTICATE),
        ([VERSIONS], VERSIONS),
        ([VERSIONS], METADATA),
        ([VERSIONS], AUTHENTICATE),
    ],
    ids=str,
)
def test_other_requests_are_refused_before_the_login(before: list[int], api: int) -> None:
    login = authenticator()
    for earlier in before:
        login.check_allowed(earlier)
        login.on_versions()
    with pytest.raises(IllegalSaslStateError, match=f"a request of API {api} from a client that has not logged in"):
        login.check_allowed(api)


def test_only_messages_may_follow_the_handshake() -> None:
    login = chosen()
    for api in (HANDSHAKE, VERSIONS, METADATA):
        with pytest.raises(IllegalSaslStateError):
            login.check_allowed(api)
    with pytest.raises(SaslAuthenticationError):
        login.on_token(b"\0alice\0no")
    with pytest.raises(IllegalSaslStateError):
        login.check_allowed(AUTHENTICATE)


def test_a_client_that_has_logged_in_cannot_do_it_again() -> None:
    login = chosen()
    login.on_token(b"\0alice\0wonder")
    with pytest.raises(IllegalSaslStateError, match="after successful authentication"):
        login.on_handshake("PLAIN", 1)
    with pytest.raises(IllegalSaslStateError, match="after successful authentication"):
        login.on_token(b"\0alice\0wonder")
    assert login.principal == ("User", "alice")


def test_an_unknown_mechanism_is_refused_with_those_that_exist() -> None:
    login = authenticator()
    with pytest.raises(UnsupportedSaslMechanismError, match="Unsupported SASL mechanism OAUTHBEARER"):
        login.on_handshake("OAUTHBEARER", 1)
    assert login.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def test_after_the_old_handshake_messages_come_without_requests() -> None:
    login = chosen(version=0)
    assert login.takes_tokens
    login.on_token(b"\0alice\0wonder")
    assert (login.takes_tokens, login.is_complete) == (False, True)


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"\0a\0b\0c", "expected 3 tokens, got 4"),
        (b"\0\0wonder", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0no", "Invalid username or password"),
        (b"\0nobody\0\x00", "expected 3 tokens, got 4"),
        (b"\0nobody\0wonder", "Invalid username or password"),
        (b"bob\0alice\0wonder", "an authorization id that is different from username"),
        (b"\0\xff\0wonder", "Invalid username or password"),
        (b"\0a\0b\0c\0d\0e", "expected 3 tokens, got 4"),
    ],
    ids=repr,
)
def test_plain_is_refused_as_in_kafka(token: bytes, text: str) -> None:
    login = chosen()
    with pytest.raises(SaslAuthenticationError, match=text):
        login.on_token(token)
    assert login.principal == ANONYMOUS


def test_an_authorization_id_may_be_the_user() -> None:
    login = chosen()
    login.on_token(b"alice\0alice\0wonder")
    assert login.principal.name == "alice"


def test_a_user_that_does_not_exist_gets_a_salt_that_stays_the_same() -> None:
    def salt(user: str) -> bytes:
        first = chosen("SCRAM-SHA-256").on_token(f"n,,n={user},r=x".encode())
        assert first.token is not None
        return first.token.split(b",s=")[1]

    assert salt("nobody") == salt("nobody") != salt("another")
    # It looks like that of a user whom Kafka's tools, or this client, have made.
    assert re.fullmatch(rb"[0-9a-z]{20,26}", b64decode(salt("nobody").split(b",")[0]))
    assert salt("bob") == b"c2FsdA==,i=4096"


@pytest.mark.parametrize("message", [b"n,,n=bob", b"", b"n,,n=bob,r=x"], ids=repr)
def test_a_malformed_message_of_scram_is_refused_as_a_wrong_password_is(message: bytes, clock: Clock) -> None:
    text = "Authentication failed during {} due to invalid credentials with SASL mechanism SCRAM-SHA-512"
    login = authenticator(60_000, clock)
    login.on_handshake("SCRAM-SHA-512", 1)
    with pytest.raises(SaslAuthenticationError) as caught:
        deque(map(login.on_token, (message, b"p=x")))
    assert caught.value.message == text.format("authentication")
    assert "malformed" in str(caught.value.__cause__)
    login = authenticator(60_000, clock)
    log_in_by_scram(login, "bob", "builder", is_token=False)
    clock.step(55_000)
    login.on_handshake("SCRAM-SHA-512", 1)
    with pytest.raises(SaslAuthenticationError) as caught:
        login.on_token(b"")
    assert caught.value.message == text.format("re-authentication")


@pytest.mark.parametrize("enabled", [["GSSAPI"], ["PLAIN", "GSSAPI"], []], ids=str)
def test_a_mechanism_that_is_not_implemented_is_refused(enabled: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"sasl.enabled.mechanisms: \w+ is not implemented; set it to some of PLAIN"):
        USERS.mechanisms(enabled)


@pytest.fixture
def clock() -> Clock:
    held = Clock()
    held.hold(NOW_MS)
    return held


def in_session(clock: Clock, lifetime_ms: int = 60_000) -> Authenticator:
    """A client that has logged in with PLAIN, for a minute."""
    login = authenticator(lifetime_ms, clock)
    login.on_handshake("PLAIN", 1)
    assert login.on_token(b"\0alice\0wonder") == (b"", lifetime_ms)
    return login


def test_a_session_continues_when_the_client_logs_in_again(clock: Clock) -> None:
    login = in_session(clock)
    clock.step(55_000)
    login.check_allowed(HANDSHAKE)
    login.on_handshake("PLAIN", 1)
    assert login.is_complete
    login.check_allowed(AUTHENTICATE)
    assert login.on_token(b"\0alice\0wonder") == (b"", 60_000)
    clock.step(60_000)
    login.check_allowed(METADATA)


def test_a_session_that_has_ended_allows_only_to_log_in_again(clock: Clock) -> None:
    login = in_session(clock)
    clock.step(60_000)
    login.check_allowed(METADATA)
    clock.step(1)
    with pytest.raises(IllegalSaslStateError, match="its session has ended"):
        login.check_allowed(METADATA)
    login.check_allowed(HANDSHAKE)
    login.on_handshake("PLAIN", 1)
    with pytest.raises(IllegalSaslStateError, match="has not logged in again"):
        login.check_allowed(METADATA)
    login.on_token(b"\0alice\0wonder")
    login.check_allowed(METADATA)


def test_a_client_may_not_log_in_again_within_a_second(clock: Clock) -> None:
    login = in_session(clock)
    for _ in range(2):
        login.on_handshake("PLAIN", 1)
        login.on_token(b"\0alice\0wonder")
        with pytest.raises(IllegalSaslStateError, match="after successful authentication"):
            login.on_handshake("PLAIN", 1)
        clock.step(1000)


@pytest.mark.parametrize(
    ("mechanism", "token", "text"),
    [
        ("PLAIN", b"\0alice\0no", "Invalid username or password"),
        ("PLAIN", b"\0carol\0sing", "Cannot change principals during re-authentication from User.alice: User.carol"),
        ("SCRAM-SHA-256", b"n,,n=alice,r=nonce", "'SCRAM-SHA-256' requested by client is not supported"),
    ],
    ids=["wrong password", "another user", "another mechanism"],
)
def test_a_client_that_fails_to_log_in_again_is_refused(clock: Clock, mechanism: str, token: bytes, text: str) -> None:
    login = in_session(clock)
    login.on_handshake(mechanism, 1)
    with pytest.raises(SaslAuthenticationError, match=text):
        login.on_token(token)
    assert not login.is_complete
    with pytest.raises(IllegalSaslStateError):
        login.check_allowed(METADATA)


def log_in_by_scram(login: Authenticator, name: str, password: str, *, is_token: bool) -> int:
    """Log in by SCRAM; return the lifetime of the session."""
    login.check_allowed(HANDSHAKE)
    login.on_handshake("SCRAM-SHA-512", 1)
    client = scram_client(MECHANISMS["SCRAM-SHA-512"], name, Secret(password), "nonce", is_token=is_token)
    first = login.on_token(next(client))
    assert first.token is not None
    return login.on_token(client.send(first.token)).session_lifetime_ms


@pytest.mark.parametrize(
    ("token_id", "max_session_ms", "lifetime_ms"),
    [("of-alice", 0, 30_000), ("of-alice", 60_000, 30_000), ("of-bob", 60_000, 60_000), ("of-bob", 0, 90_000)],
)
def test_a_session_ends_with_the_token(clock: Clock, token_id: str, max_session_ms: int, lifetime_ms: int) -> None:
    login = authenticator(max_session_ms, clock)
    assert log_in_by_scram(login, token_id, "hmac", is_token=True) == lifetime_ms
    assert (login.principal, login.by_token) == (("User", TOKENS[token_id][0]), True)
    clock.step(lifetime_ms)
    login.check_allowed(METADATA)
    clock.step(1)
    with pytest.raises(IllegalSaslStateError, match="its session has ended"):
        login.check_allowed(METADATA)


def test_an_expired_token_logs_in_for_no_time_at_all_as_in_kafka(clock: Clock) -> None:
    login = authenticator(60_000, clock)
    assert log_in_by_scram(login, "expired", "hmac", is_token=True) == 0
    with pytest.raises(IllegalSaslStateError, match="its session has ended"):
        login.check_allowed(METADATA)


@pytest.mark.parametrize(
    ("name", "password", "is_token"),
    [
        ("of-alice", "wrong", True),
        ("of-alice", "hmac", False),
        ("bob", "builder", True),
        ("nothing", "hmac", True),
    ],
    ids=["wrong HMAC", "token as a user", "user as a token", "unknown token"],
)
def test_who_is_not_the_holder_of_a_token_is_refused(name: str, password: str, is_token: bool) -> None:
    login = authenticator()
    with pytest.raises(SaslAuthenticationError, match="due to invalid credentials with SASL mechanism SCRAM-SHA-512"):
        log_in_by_scram(login, name, password, is_token=is_token)
    assert (login.principal, login.by_token) == (ANONYMOUS, False)


def test_a_password_after_a_token_lifts_the_limits_of_the_token(clock: Clock) -> None:
    login = authenticator(0, clock)
    log_in_by_scram(login, "of-bob", "hmac", is_token=True)
    assert log_in_by_scram(login, "bob", "builder", is_token=False) == 0
    assert not login.by_token
    clock.step(1_000_000)
    login.check_allowed(METADATA)


def test_a_token_of_another_owner_does_not_continue_a_session(clock: Clock) -> None:
    login = authenticator(0, clock)
    log_in_by_scram(login, "of-alice", "hmac", is_token=True)
    with pytest.raises(SaslAuthenticationError, match="Cannot change principals during re-authentication"):
        log_in_by_scram(login, "of-bob", "hmac", is_token=True)
