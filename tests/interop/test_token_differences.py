"""Tokens of OAUTHBEARER that Kafka's validators accept, and no others, are accepted here, for the same user and time.

Not compared: secrets among the keys, and payloads that are not encoded (`b64`), which Kafka uses.
"""

from __future__ import annotations

import json
import random
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest

from kclient.errors import ConfigError
from kclient.security.oauth.exchange import TokenRefusedError
from refbroker.security.jwks import KeySet
from refbroker.security.oauth import AcceptedToken, SignedTokens, TokenValidator, UnsecuredTokens
from tests.support.kafka.jars import run_tool
from tests.support.oauth_provider import AUDIENCE, ISSUER, SigningKey

PROGRAM = Path(__file__).with_name("java") / "TokenValidators.java"
CASES = 400
KEYS = [SigningKey(name) for name in ("one", "two", "three")]
OF_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
NOW = int(time.time())
ALGORITHMS = ("none", "none", "none", "none", "None", ["none"], None)
FAR = 10_000
"""Seconds; Kafka's validators read the time themselves."""

pytestmark = pytest.mark.usefixtures("needs_kafka")

ODD: list[Any] = [None, 7, "", " ", ["a"], [], {"a": 1}, True, 1.5]
TIMES: list[Any] = [-5, NOW - FAR, NOW + FAR, NOW + 2 * FAR, NOW + FAR + 0.75, 2**40, "7"]
CLAIMS: dict[str, list[Any]] = {
    "sub": ["alice", " bob ", *ODD],
    "exp": [*TIMES, 2**62, *ODD],
    "iat": [*TIMES, *ODD],
    "nbf": [*TIMES, *ODD],
    "iss": [ISSUER, "other", *ODD],
    "aud": [AUDIENCE, "other", ["other", AUDIENCE], [AUDIENCE, 7], *ODD],
    "scope": ["read", "read write", ["read", "write"], ["read", "read"], [" "], *ODD],
    "jti": ["x", *ODD],
}
UNSECURED = {
    "sub": ["alice", " bob ", *ODD],
    "exp": [*TIMES, 2**62, 10**30, *ODD],
    "iat": [*TIMES, *ODD],
    "scope": ["read", " read ", "read write", ["read", "write"], [" write", "read", " ", None, 1], *ODD],
}
USUAL = {"sub": "alice", "exp": NOW + FAR, "iat": NOW - FAR, "iss": ISSUER, "aud": AUDIENCE}


def random_claims(rng: random.Random, pool: dict[str, list[Any]]) -> dict[str, Any]:
    """Return claims of which a few are unusual."""
    claims = dict(USUAL)
    for name in rng.sample(list(pool), rng.choice((0, 0, 1, 1, 2))):
        if rng.random() < 0.2:
            claims.pop(name, None)
        else:
            claims[name] = rng.choice(pool[name])
    return claims


def public(rng: random.Random, key: SigningKey) -> dict[str, Any]:
    """Return the JSON Web Key of a key, often with unusual properties."""
    found = dict(key.public)
    if rng.random() < 0.5:
        return found
    if rng.random() < 0.3:
        found["kid"] = rng.choice(("one", "two"))
    if rng.random() < 0.1:
        del found["kid"]
    if rng.random() < 0.2:
        found["use"] = rng.choice(("enc", "sig"))
    if rng.random() < 0.2:
        found["key_ops"] = rng.choice((["verify"], ["encrypt"], ["encrypt", "verify"]))
    if rng.random() < 0.3:
        found["alg"] = rng.choice(OF_RSA)
    return found


def signed_token(rng: random.Random, keys: list[SigningKey]) -> str:
    key, headers = rng.choice(keys if rng.random() < 0.9 else KEYS), {}
    if rng.random() < 0.7:
        headers["kid"] = rng.choice((key.name, key.name, "one", "four"))
    head: dict[str, Any] = {"alg": rng.choice(("RS256", *OF_RSA)), "typ": "JWT", **headers}
    content = json_text(rng, random_claims(rng, CLAIMS))
    if rng.random() < 0.15:
        head["cty"] = rng.choice(("JWT", "jwt", "application/jwt", "text", "", 7))
        if rng.random() < 0.7:
            content = signed_token(rng, keys)
    if rng.random() < 0.05:
        head["crit"] = rng.choice(([], ["exp"], "exp", None))
    text = ".".join(encoded(part.encode()) for part in (json_text(rng, head), content))
    algorithm = jwt.get_algorithm_by_name(head["alg"])
    return f"{text}.{encoded(algorithm.sign(text.encode(), key.private))}"


def json_text(rng: random.Random, found: dict[str, Any]) -> str:
    """Return JSON, which is sometimes not quite that: a name stands there twice, or something follows."""
    text = json.dumps(found)
    if rng.random() < 0.05:
        repeated = {rng.choice(list(found)): rng.choice(("x", NOW - FAR))}
        text = f"{json.dumps(repeated)[:-1]}, {text[1:]}"
    if rng.random() < 0.05:
        text = rng.choice(
            (
                f" {text}\n",
                f"{text}x",
                f"{text}{{}}",
                f'{text[:-1]}, "a": NaN}}',
                f'{text[:-1]}, "a": {{"b": 1, "b": 1}}}}',
            )
        )
    return text


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def accepted_by_kafka(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what Kafka's validators say of each case."""
    output = run_tool(str(PROGRAM), input="".join(json.dumps(case) + "\n" for case in cases)).stdout
    return [json.loads(line)["result"] for line in output.splitlines() if line.startswith('{"result"')]


def accepted_here(case: dict[str, Any]) -> AcceptedToken | None:
    def clock() -> int:
        return NOW * 1000

    validator: TokenValidator = UnsecuredTokens(clock, required_scope=case.get("scope", "").split())
    try:
        if "keys" in case:
            keys = KeySet(Path(case["keys"]).read_bytes, "keys", clock)
            validator = SignedTokens(keys, clock, issuer=case.get("issuer"), audiences=case["audiences"])
        return validator.accept(case["token"])
    except (ConfigError, TokenRefusedError):
        return None


def shown(token: str) -> list[bytes]:
    return [urlsafe_b64decode(part + "==") for part in token.split(".")[:2]]


def compare(cases: list[dict[str, Any]]) -> None:
    kafkas = accepted_by_kafka(cases)
    assert len(kafkas) == len(cases)
    different = []
    for case, kafka in zip(cases, kafkas, strict=True):
        expected = AcceptedToken(kafka["user"], kafka["expires_ms"]) if "user" in kafka else None
        found = accepted_here(case)
        if found != expected:
            different.append((shown(case["token"]), found, kafka))
    assert not different, f"{len(different)} of {len(cases)}, the first one: {different[0]}"
    number = sum("user" in kafka for kafka in kafkas)
    assert 0.1 < number / len(cases) < 0.9


@pytest.mark.parametrize("seed", [1, 2])
def test_signed_tokens_are_accepted_as_by_kafka(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    cases = []
    for number in range(CASES):
        path = tmp_path / f"{number}.json"
        keys = rng.sample(KEYS, rng.choice((1, 2, 3)))
        path.write_text(json.dumps({"keys": [public(rng, key) for key in keys]}))
        case = {
            "keys": str(path),
            "token": signed_token(rng, keys),
            "audiences": rng.choice(([AUDIENCE], [AUDIENCE, "x"], [])),
        }
        cases.append(case | ({"issuer": ISSUER} if rng.random() < 0.7 else {}))
    compare(cases)


def test_unsecured_tokens_are_accepted_as_by_kafka() -> None:
    rng = random.Random(3)
    cases = []
    for _ in range(CASES):
        claims = random_claims(rng, UNSECURED)
        parts = [encoded(json_text(rng, part).encode()) for part in ({"alg": rng.choice(ALGORITHMS)}, claims)]
        case = {"token": ".".join([*parts, ""])}
        cases.append(case | ({"scope": "read write"} if rng.random() < 0.3 else {}))
    compare(cases)
