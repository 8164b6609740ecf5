"""The tokens that a listener accepts."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kclient.errors import ConfigError, OAuthTokenError, SaslAuthenticationError
from kclient.security.oauth.exchange import TokenRefusedError
from kclient.security.oauth.tokens import unsecured_token
from refbroker.security.jwks import KeySet
from refbroker.security.oauth import AcceptedToken, ClaimNames, SignedTokens, UnsecuredTokens, bearer_server
from refbroker.security.sasl import Login
from tests.support.oauth_provider import AUDIENCE, ISSUER, SigningKey

NOW = 1_700_000_000
ONE, TWO = SigningKey("one"), SigningKey("two")
CLAIMS = {"sub": "alice", "exp": NOW + 60, "iat": NOW - 60, "iss": ISSUER, "aud": AUDIENCE}


def clock() -> int:
    return NOW * 1000


class Provider:
    """The keys of a provider, and a set of them with a clock that the test moves."""

    def __init__(self, *keys: SigningKey) -> None:
        self.keys = list(keys)
        self.fetches = 0
        self.error: Exception | None = None
        self.now = 0
        self.set = KeySet(self.fetch, "https://login.test/keys", lambda: self.now)
        self.missing = 0
        self.set.on_missing = self.miss

    def fetch(self) -> bytes:
        self.fetches += 1
        if self.error is not None:
            raise self.error
        return json.dumps({"keys": [key.public for key in self.keys]}).encode()

    def miss(self) -> None:
        self.missing += 1


def signed(key: SigningKey = ONE, **claims: Any) -> str:
    merged = CLAIMS | claims
    return key.token(**{name: value for name, value in merged.items() if value is not None})


def validator(**options: Any) -> SignedTokens:
    return SignedTokens(Provider(ONE).set, clock, **({"issuer": ISSUER, "audiences": [AUDIENCE]} | options))


def test_a_signed_token_names_its_user_and_its_end() -> None:
    assert validator().accept(signed()) == AcceptedToken("alice", (NOW + 60) * 1000)


def test_the_user_may_be_in_another_claim() -> None:
    token = signed(email=" alice@example.com ")
    assert validator(claims=ClaimNames("email")).accept(token).user == "alice@example.com"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": NOW - 30}, "has expired"),
        ({"exp": None}, "claim 'exp' is missing"),
        ({"exp": "soon"}, "malformed|claim 'exp'|not valid"),
        ({"iat": None}, "claim 'iat' is missing"),
        ({"nbf": NOW + 31}, "is not valid yet"),
        ({"iss": "https://other.test"}, "the issuer is 'https://other.test', not 'https://login.test'"),
        ({"iss": None}, "the issuer is None"),
        ({"aud": "other"}, r"the audience is \['other'\], not one of \['kafka'\]"),
        ({"aud": None}, r"the audience is \[\]"),
        ({"sub": None}, "claim 'sub' is missing"),
        ({"sub": " "}, "claim 'sub' is missing"),
        ({"scope": ["a", "a"]}, "claim 'scope' has a part"),
        ({"scope": ["a", " "]}, "claim 'scope' has a part"),
        ({"scope": ""}, "claim 'scope' has a part"),
    ],
    ids=["expired", "no exp", "no number", "no iat", "nbf", "issuer", "no issuer", "audience", "no audience", "no sub",
         "blank sub", "scope twice", "blank scope", "empty scope"],
)  # fmt: skip
def test_a_token_with_wrong_claims_is_refused(claims: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenRefusedError, match=reason) as caught:
        validator().accept(signed(**claims))
    assert caught.value.response == '{"status":"invalid_token"}'


def test_clocks_may_differ_by_the_skew() -> None:
    assert validator().accept(signed(exp=NOW - 29)).user == "alice"
    assert validator().accept(signed(nbf=NOW + 30)).user == "alice"
    with pytest.raises(TokenRefusedError, match="has expired"):
        validator(skew_ms=0).accept(signed(exp=NOW))


def test_any_issuer_is_accepted_if_none_is_expected_but_no_unexpected_audience() -> None:
    assert validator(issuer=None, audiences=()).accept(signed(iss="x", aud=None)).user == "alice"
    with pytest.raises(TokenRefusedError, match="the audience is"):
        validator(audiences=()).accept(signed())


def test_one_of_several_audiences_is_enough() -> None:
    assert validator(audiences=["x", "y"]).accept(signed(aud=["y", "z"])).user == "alice"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (signed(TWO), "the provider has no key 'two'"),
        (signed()[:-4] + "AAAA", "the signature is not valid"),
        (unsecured_token(CLAIMS), "the signature 'none' is not accepted"),
        ("opaque", "the token is malformed"),
        ("a.b.c", "the token is malformed"),
    ],
    ids=["unknown key", "forged", "unsigned", "opaque", "garbage"],
)
def test_a_token_that_no_key_has_signed_is_refused(token: str, reason: str) -> None:
    with pytest.raises(TokenRefusedError, match=reason):
        validator().accept(token)


def test_a_public_key_is_no_shared_secret() -> None:
    import jwt

    public = json.dumps(ONE.public)
    forged = jwt.encode(CLAIMS, public * 2, algorithm="HS256", headers={"kid": "one"})
    with pytest.raises(TokenRefusedError, match="the signature 'HS256' is not accepted"):
        validator().accept(forged)


def test_a_missing_key_is_asked_for_once_a_minute() -> None:
    provider = Provider(ONE)
    tokens = SignedTokens(provider.set, clock, issuer=ISSUER, audiences=[AUDIENCE])
    for now, missing in ((0, 1), (59_999, 1), (60_000, 2)):
        provider.now = now
        with pytest.raises(TokenRefusedError, match="no key 'two'"):
            tokens.accept(signed(TWO))
        assert provider.missing == missing
    provider.keys = [TWO]
    provider.set.refresh()
    assert tokens.accept(signed(TWO)).user == "alice"
    with pytest.raises(TokenRefusedError, match="no key 'one'"):
        tokens.accept(signed(ONE))


def test_the_names_of_missing_keys_do_not_fill_memory() -> None:
    provider = Provider(ONE)
    for number in range(1_100):
        with pytest.raises(TokenRefusedError):
            provider.set._candidates(f"key-{number}")
    assert len(provider.set._missing) == 1_000


def test_the_keys_stay_if_they_cannot_be_fetched_again(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider(ONE)
    provider.error = OAuthTokenError("https://login.test/keys could not be reached: refused")
    with caplog.at_level(logging.WARNING):
        provider.set.refresh()
    assert "the keys of OAUTHBEARER stay as they are: https://login.test/keys" in caplog.text
    assert SignedTokens(provider.set, clock, issuer=ISSUER, audiences=[AUDIENCE]).accept(signed()).user == "alice"


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"no json", "is not a JSON Web Key Set"), (b'{"keys":[]}', "is not a JSON"), (b"[]", "is not a JSON")],
    ids=["no json", "no keys", "list"],
)
def test_a_source_without_keys_is_an_error_at_the_start(content: bytes, text: str) -> None:
    with pytest.raises(ConfigError, match=f"could not be loaded from file:///keys: it {text}"):
        KeySet(lambda: content, "file:///keys", clock)


def unsecured(**claims: Any) -> str:
    return unsecured_token({name: value for name, value in (CLAIMS | claims).items() if value is not None})


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (signed(), "is not an unsecured JSON Web Token"),
        (unsecured(sub=None), "claim 'sub'"),
        (unsecured(sub=7), "claim 'sub'"),
        (unsecured(exp=NOW), "has expired"),
        (unsecured(exp=None), "claim 'exp'"),
        (unsecured(iat=NOW + 1), "issued in the future"),
        (unsecured(iat=NOW, exp=NOW + 0.0001), "has expired|before it was issued"),
        ("opaque", "is not an unsecured"),
    ],
    ids=["signed", "no sub", "number", "expired", "no exp", "future", "order", "opaque"],
)
def test_an_unsecured_token_with_wrong_claims_is_refused(token: str, reason: str) -> None:
    with pytest.raises(TokenRefusedError, match=reason):
        UnsecuredTokens(clock).accept(token)


def test_an_unsecured_token_may_need_a_scope() -> None:
    tokens = UnsecuredTokens(clock, required_scope=["read", "write"])
    assert tokens.accept(unsecured(scope="write read x")).user == "alice"
    assert tokens.accept(unsecured(scope=["read", "write"])) == AcceptedToken("alice", (NOW + 60) * 1000)
    with pytest.raises(TokenRefusedError, match="the scope lacks 'write'") as caught:
        tokens.accept(unsecured(scope="read"))
    assert caught.value.response == '{"status":"insufficient_scope", "scope":"read write"}'


def first_message(token: str, user: str = "") -> bytes:
    return f"n,{f'a={user}' if user else ''},\x01auth=Bearer {token}\x01\x01".encode()


def test_the_login_ends_with_the_token() -> None:
    server = bearer_server(UnsecuredTokens(clock))
    next(server)
    with pytest.raises(StopIteration) as done:
        server.send(first_message(unsecured(), "alice"))
    assert done.value.value == Login("alice", b"", (NOW + 60) * 1000)


def test_a_client_cannot_be_somebody_else_than_its_token() -> None:
    server = bearer_server(UnsecuredTokens(clock))
    next(server)
    with pytest.raises(SaslAuthenticationError, match=r"authorization id \(bob\) that is different from .*\(alice\)"):
        server.send(first_message(unsecured(), "bob"))
