"""The tokens that a listener accepts."""

from __future__ import annotations

import hmac
import json
import logging
from base64 import urlsafe_b64encode
from types import SimpleNamespace
from typing import Any

import pytest
from jwt.algorithms import RSAAlgorithm

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
        ({"exp": NOW + 60, "iat": NOW + 61}, "it expires before it was issued, or before it is valid"),
        ({"exp": NOW + 10, "nbf": NOW + 20}, "it expires before it was issued, or before it is valid"),
        ({"exp": 2**62}, "claim 'exp'"),
        ({"aud": [AUDIENCE, 1]}, "claim 'aud' is no text and no list of texts"),
        ({"aud": 7}, "claim 'aud' is no text and no list of texts"),
        ({"jti": 7}, "claim 'jti' is no text"),
    ],
    ids=["expired", "no exp", "no number", "no iat", "nbf", "issuer", "no issuer", "audience", "no audience", "no sub",
         "blank sub", "scope twice", "blank scope", "empty scope", "before iat", "before nbf", "no time", "mixed",
         "audience number", "jti"],
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
    unexpected: list[Any] = [AUDIENCE, []]
    for audience in unexpected:
        with pytest.raises(TokenRefusedError, match="the audience is"):
            validator(audiences=()).accept(signed(aud=audience))


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


HEADER = '{"alg": "RS256", "kid": "one"'


def raw(header: str, content: str, key: SigningKey = ONE) -> str:
    """Return a token whose parts are written as they are."""
    parts = ".".join(urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in (header, content))
    signature = RSAAlgorithm(RSAAlgorithm.SHA256).sign(parts.encode(), key.private)
    return f"{parts}.{urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize("kind", ["JWT", "jwt", "application/jwt"])
def test_a_token_in_a_token_says_who_it_is_for_and_both_are_verified(kind: str) -> None:
    header = f'{HEADER}, "cty": "{kind}"}}'
    assert validator().accept(raw(header, signed())).user == "alice"
    assert validator().accept(raw(header, raw(header, signed()))).user == "alice"
    for inner in (signed(TWO), signed()[:-4] + "AAAA", json.dumps(CLAIMS), unsecured_token(CLAIMS)):
        with pytest.raises(TokenRefusedError):
            validator().accept(raw(header, inner))
    with pytest.raises(TokenRefusedError, match="the provider has no key 'two'"):
        validator().accept(raw(header.replace("one", "two"), signed()))
    with pytest.raises(TokenRefusedError, match="no JSON object"):
        validator().accept(raw(f"{HEADER}}}", signed()))


@pytest.mark.parametrize(
    ("header", "content", "reason"),
    [
        (f"{HEADER}}}", json.dumps(CLAIMS)[:-1] + ', "sub": "root"}', "has a name twice"),
        (f"{HEADER}}}", json.dumps(CLAIMS)[:-1] + ', "x": {"y": 1, "y": 2}}', "has a name twice"),
        (f'{HEADER}, "kid": "one"}}', json.dumps(CLAIMS), "has a name twice"),
        (f"{HEADER}}}", json.dumps(CLAIMS)[:-1] + ', "x": NaN}', "is no JSON object"),
        (f"{HEADER}}}", "[1]", "is no JSON object"),
        (f'{HEADER}, "cty": 7}}', json.dumps(CLAIMS), "'cty' is no text"),
        (f'{HEADER}, "crit": ["exp"], "exp": 1}}', json.dumps(CLAIMS), "a critical header"),
    ],
    ids=["claim", "inner name", "header", "no number", "list", "type", "critical"],
)
def test_a_token_that_can_be_read_in_two_ways_is_refused(header: str, content: str, reason: str) -> None:
    assert validator().accept(raw(f"{HEADER}}}", json.dumps(CLAIMS))).user == "alice"
    with pytest.raises(TokenRefusedError, match=reason):
        validator().accept(raw(header, content))


def accepts(token: str, *keys: SigningKey) -> bool:
    tokens = SignedTokens(Provider(*keys).set, clock, issuer=ISSUER, audiences=[AUDIENCE])
    try:
        return tokens.accept(token).user == "alice"
    except TokenRefusedError:
        return False


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_a_key_of_rsa_verifies_every_signature_of_rsa(algorithm: str) -> None:
    key = SigningKey("one", algorithm=algorithm)
    assert accepts(signed(key), key)


@pytest.mark.parametrize(
    ("more", "is_accepted"),
    [
        ({"use": "enc"}, False),
        ({"key_ops": ["encrypt"]}, False),
        ({"key_ops": ["verify", "wrapKey"]}, True),
        ({"key_ops": 7}, False),
    ],
    ids=["for encryption", "operation", "one of its operations", "malformed"],
)
def test_a_key_that_is_not_for_signatures_verifies_none(more: dict[str, Any], is_accepted: bool) -> None:
    key = SigningKey("one", **more)
    assert accepts(signed(key), key, TWO) is is_accepted


def test_a_secret_among_the_keys_verifies_no_token() -> None:
    import jwt

    secret = b"0123456789abcdef0123456789abcdef"
    encoded = {"kty": "oct", "kid": "shared", "alg": "HS256", "k": urlsafe_b64encode(secret).rstrip(b"=").decode()}
    provider = Provider(ONE)
    provider.keys[0] = SimpleNamespace(public=encoded)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="has no key for the signatures"):
        Provider(*provider.keys)
    provider.keys.append(ONE)
    keys = Provider(*provider.keys).set
    forged = jwt.encode(CLAIMS, secret, algorithm="HS256", headers={"kid": "shared"})
    head = urlsafe_b64encode(json.dumps({"alg": "RS256", "kid": "shared"}).encode()).rstrip(b"=").decode()
    body = f"{head}.{forged.split('.')[1]}"
    disguised = f"{body}.{urlsafe_b64encode(hmac.digest(secret, body.encode(), 'sha256')).rstrip(b'=').decode()}"
    for token in (forged, disguised):
        with pytest.raises(TokenRefusedError, match=r"is not accepted|has no key 'shared'"):
            keys.verify(token)


def without_name(key: SigningKey) -> str:
    import jwt

    return jwt.encode(CLAIMS, key.private, algorithm="RS256")


def test_the_first_fitting_key_verifies_a_token_that_names_none() -> None:
    assert accepts(without_name(ONE), ONE, TWO)
    assert not accepts(without_name(TWO), ONE, TWO)
    other = SigningKey("other", alg="RS512")
    assert accepts(without_name(TWO), other, TWO)


def test_a_short_key_and_a_private_key_are_no_danger() -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    short = SigningKey("short")
    short.private = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    with pytest.raises(ConfigError, match="has no key for the signatures"):
        Provider(short)
    numbers = ONE.private.private_numbers()
    assert accepts(signed(ONE), SimpleNamespace(public=ONE.public | {"d": number(numbers.d)}))  # type: ignore[arg-type]


def number(value: int) -> str:
    return urlsafe_b64encode(value.to_bytes(256, "big")).rstrip(b"=").decode()


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

    def refused(name: str) -> str:
        head = urlsafe_b64encode(json.dumps({"alg": "RS256", "kid": name}).encode()).rstrip(b"=").decode()
        with pytest.raises(TokenRefusedError) as caught:
            provider.set.verify(f"{head}.e30.AAAA")
        return str(caught.value)

    for each in range(1_100):
        refused(f"key-{each}")
    assert (len(provider.set._missing), provider.missing) == (1_000, 1_100)
    assert len(refused("k" * 100_000)) < 300
    assert provider.missing == 1_100
    assert max(map(len, provider.set._missing)) < 100


def test_the_keys_stay_if_they_cannot_be_fetched_again(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider(ONE)
    provider.error = OAuthTokenError("https://login.test/keys could not be reached: refused")
    with caplog.at_level(logging.WARNING):
        provider.set.refresh()
    assert "the keys of OAUTHBEARER stay as they are: https://login.test/keys" in caplog.text
    assert SignedTokens(provider.set, clock, issuer=ISSUER, audiences=[AUDIENCE]).accept(signed()).user == "alice"


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"no json", "is not a JSON Web Key Set"), (b'{"keys":[]}', "has no key"), (b"[]", "is not a JSON")],
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
        (unsecured(scope=7), "claim 'scope' is a number"),
        (unsecured(iat=NOW + 1), "issued in the future"),
        (unsecured(iat=NOW, exp=NOW + 0.0001), "has expired|before it was issued"),
        ("opaque", "is not an unsecured"),
    ],
    ids=["signed", "no sub", "number", "expired", "no exp", "scope", "future", "order", "opaque"],
)
def test_an_unsecured_token_with_wrong_claims_is_refused(token: str, reason: str) -> None:
    with pytest.raises(TokenRefusedError, match=reason):
        UnsecuredTokens(clock).accept(token)


def test_an_unsecured_token_may_need_a_scope() -> None:
    tokens = UnsecuredTokens(clock, required_scope=["read", "write"])
    assert tokens.accept(unsecured(scope=["x", "read", "write"])) == AcceptedToken("alice", (NOW + 60) * 1000)
    assert UnsecuredTokens(clock, required_scope=["read"]).accept(unsecured(scope=" read ")).user == "alice"
    # Text is one part, as in Kafka.
    for scope in ("read", "read write"):
        with pytest.raises(TokenRefusedError, match="the scope lacks") as caught:
            tokens.accept(unsecured(scope=scope))
        assert caught.value.response == '{"status":"insufficient_scope", "scope":"[read, write]"}'


def test_an_unsecured_token_may_never_end() -> None:
    for exp in (2**62, 10**30, 1e300):
        assert UnsecuredTokens(clock).accept(unsecured(exp=exp)).expires_ms == 2**63 - 1


def test_the_user_of_an_unsecured_token_keeps_its_blanks() -> None:
    assert UnsecuredTokens(clock).accept(unsecured(sub=" alice ")).user == " alice "


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ('{"sub": "bob", "sub": "alice", "exp": 9e9}', "alice"),
        ('{"sub": true, "exp": 9e9} and more', "true"),
        ('{"sub": null, "exp": 9e9}', "null"),
    ],
    ids=["twice", "bool", "null"],
)
def test_the_claims_of_an_unsecured_token_are_read_as_by_jackson(text: str, user: str) -> None:
    token = ".".join(urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in ('{"alg":"none"}', text)) + "."
    assert UnsecuredTokens(clock).accept(token).user == user


@pytest.mark.parametrize("part", ["a+b/", "e30~", "e", "bnVsbA"])
def test_a_part_that_is_no_json_in_base64url_is_refused(part: str) -> None:
    with pytest.raises(TokenRefusedError, match="is not an unsecured"):
        UnsecuredTokens(clock).accept(f"eyJhbGciOiJub25lIn0.{part}.")


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
