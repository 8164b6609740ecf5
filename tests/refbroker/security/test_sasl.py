"""The login of a connection: what may come when, and who is refused."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigError, IllegalSaslStateError, SaslAuthenticationError, UnsupportedSaslMechanismError
from kclient.security.scram import MECHANISMS, ScramCredential, ScramMechanism, credential_of, salted_password
from kclient.security.secret import Secret
from refbroker.security.principals import ANONYMOUS
from refbroker.security.sasl import STATES, Authenticator, State, Users

HANDSHAKE, VERSIONS, AUTHENTICATE, METADATA = 17, 18, 36, 3


def scram(mechanism: ScramMechanism, user: str) -> ScramCredential | None:
    if user != "bob":
        return None
    return credential_of(mechanism, salted_password(mechanism, "builder", b"salt", 4096), b"salt", 4096)


USERS = Users({"alice": Secret("wonder")}, scram, b"secret")


def authenticator() -> Authenticator:
    return Authenticator(USERS.mechanisms(["PLAIN", *MECHANISMS]))


def chosen(mechanism: str = "PLAIN", version: int = 1) -> Authenticator:
    login = authenticator()
    login.check_allowed(HANDSHAKE)
    login.on_handshake(mechanism, version)
    return login


def test_every_state_is_in_the_table() -> None:
    assert set(STATES.states) == set(State)


def test_a_login_with_plain() -> None:
    login = authenticator()
    login.check_allowed(VERSIONS)
    login.check_allowed(HANDSHAKE)
    login.on_handshake("PLAIN", 1)
    login.check_allowed(AUTHENTICATE)
    assert (login.is_complete, login.principal) == (False, ANONYMOUS)
    assert login.on_token(b"\0alice\0wonder") == b""
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
        (b"\0\xff\0wonder", "not UTF-8"),
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
        return first.split(b",s=")[1]

    assert salt("nobody") == salt("nobody") != salt("another")
    assert salt("bob") == b"c2FsdA==,i=4096"


@pytest.mark.parametrize("enabled", [["GSSAPI"], ["PLAIN", "OAUTHBEARER"], []], ids=str)
def test_a_mechanism_that_is_not_implemented_is_refused(enabled: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"sasl.enabled.mechanisms: \w+ is not implemented; set it to some of PLAIN"):
        USERS.mechanisms(enabled)
