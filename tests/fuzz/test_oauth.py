"""No token, message or response of a provider raises anything but the errors that it should."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import ConfigError, OAuthTokenError, SaslAuthenticationError
from kclient.security.oauth.endpoint import token_of
from kclient.security.oauth.exchange import TokenRefusedError, oauth_client, parse_client_message
from kclient.security.oauth.tokens import OAuthToken, claims_of, expiry_of, unsecured_token
from kclient.security.oauth.urls import check_url
from refbroker.security.jwks import KeySet
from refbroker.security.oauth import AcceptedToken, SignedTokens, TokenValidator, UnsecuredTokens
from tests.support.oauth_provider import SigningKey

pytestmark = pytest.mark.fuzz

KEY = SigningKey("one")
KEYS = KeySet(lambda: json.dumps({"keys": [KEY.public]}).encode(), "test", lambda: 0)
NOW_MS = 1_700_000_000_000
VALIDATORS: list[TokenValidator] = [
    SignedTokens(KEYS, lambda: NOW_MS, issuer="i", audiences=["a"]),
    UnsecuredTokens(lambda: NOW_MS, required_scope=["s"]),
]

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
claims = st.dictionaries(
    st.sampled_from(["sub", "exp", "iat", "nbf", "iss", "aud", "scope"]),
    values | st.just("a") | st.just(NOW_MS // 1000),
)
TOKENS = st.from_regex(r"[-_~+/.a-zA-Z0-9]{1,40}=*", fullmatch=True)


def accept(token: str) -> list[AcceptedToken]:
    accepted = []
    for validator in VALIDATORS:
        with suppress(TokenRefusedError):
            accepted.append(validator.accept(token))
    return accepted


@given(message=st.binary(max_size=200))
def test_random_first_messages_are_refused_or_read(message: bytes) -> None:
    for candidate in (message, b"n,,\x01auth=Bearer " + message + b"\x01\x01"):
        with suppress(SaslAuthenticationError):
            parse_client_message(candidate)


@given(
    token=TOKENS,
    extensions=st.dictionaries(
        st.from_regex("[A-Za-z]{1,9}", fullmatch=True).filter(lambda name: name != "auth"),
        st.from_regex("[!-~]{1,20}", fullmatch=True),
        max_size=3,
    ),
)
def test_what_a_client_sends_a_broker_reads(token: str, extensions: dict[str, str]) -> None:
    sent = next(oauth_client(OAuthToken(token, extensions=extensions)))
    assert parse_client_message(sent) == (token, "", extensions)


@given(token=st.text(max_size=200) | TOKENS)
def test_random_tokens_are_refused(token: str) -> None:
    assert not accept(token)
    expiry_of(token)
    with suppress(ConfigError):
        OAuthToken(token)


@given(found=claims)
def test_random_claims_are_refused_or_make_a_user(found: dict[str, Any]) -> None:
    encoded = urlsafe_b64encode(json.dumps(found).encode()).decode().rstrip("=")
    assert claims_of(f"a.{encoded}.c") == claims_of(unsecured_token(found))
    for token in (unsecured_token(found), KEY.token(**found) if is_signable(found) else "x"):
        for accepted in accept(token):
            assert accepted.user.strip()
            assert accepted.expires_ms > 0


def is_signable(found: dict[str, Any]) -> bool:
    """Return whether PyJWT signs the claims: it checks the type of the issuer."""
    return isinstance(found.get("iss", ""), str) and all(value == value for value in found.values())


@given(header=values, rest=st.text(alphabet="abcABC123-_.", max_size=40))
def test_random_headers_are_refused(header: Any, rest: str) -> None:
    encoded = urlsafe_b64encode(json.dumps(header).encode()).decode().rstrip("=")
    assert not accept(f"{encoded}.{rest}")


@given(body=st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()))
def test_random_responses_of_a_token_endpoint_have_no_token(body: bytes) -> None:
    with suppress(OAuthTokenError):
        token_of(body, "https://login.test", {})


@given(body=st.binary(max_size=200) | values.map(lambda value: json.dumps({"keys": value}).encode()))
def test_random_key_sets_are_refused(body: bytes) -> None:
    with pytest.raises(ConfigError):
        KeySet(lambda: body, "test", lambda: 0)


@given(url=st.text(max_size=60) | st.from_regex(r"https?://[a-z:@\[\]0-9.%/?#]{0,30}", fullmatch=True))
def test_random_urls_are_refused_or_allowed(url: str) -> None:
    with suppress(ConfigError):
        check_url(url, "url")
