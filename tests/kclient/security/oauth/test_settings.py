"""Where tokens come from: the application, an endpoint on the loopback interface, a file."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from kclient import OAuthToken
from kclient.config import AdminConfig
from kclient.errors import ConfigError, KafkaError, OAuthTokenError, SaslAuthenticationError
from kclient.security.oauth.endpoint import Endpoint
from kclient.security.oauth.settings import OAuthSettings
from kclient.security.oauth.tokens import claims_of, unsecured_token
from tests.support.oauth_provider import OAuthProvider, SigningKey, oauth_provider

RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
TOKEN = unsecured_token({"sub": "alice", "exp": 4_000_000_000})
SECRET = "p@ss word"
CODE = "correct-horse"
ASSERTION = f"{TOKEN}c2lnbmF0dXJl"


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey("one")


@pytest.fixture
def provider() -> Iterator[OAuthProvider]:
    with oauth_provider() as running:
        running.token = TOKEN
        yield running


def config(**options: Any) -> AdminConfig:
    return AdminConfig(security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", **options)


def settings(**options: Any) -> OAuthSettings:
    found = config(**options).sasl
    assert isinstance(found, OAuthSettings)
    return found


def fetch(**options: Any) -> OAuthToken:
    return settings(**options).provide(lambda: time.time_ns() // 1_000_000)()


def credentials(provider: OAuthProvider, **options: Any) -> dict[str, Any]:
    return {
        "sasl_oauthbearer_token_endpoint_url": provider.token_url,
        "sasl_oauthbearer_client_credentials_client_id": "billing",
        "sasl_oauthbearer_client_credentials_client_secret": SECRET,
        **options,
    }


def key_file(folder: Path, key: SigningKey, password: bytes | None = None) -> Path:
    protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    path = folder / "key.pem"
    path.write_bytes(
        key.private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
    )
    return path


def test_client_credentials_are_posted_as_kafka_does(provider: OAuthProvider) -> None:
    token = fetch(**credentials(provider, sasl_oauthbearer_scope=" kafka read "))
    assert token.value.reveal() == TOKEN
    assert token.expires_at_ms == 4_000_000_000_000
    assert provider.forms == [{"grant_type": ["client_credentials"], "scope": ["kafka read"]}]
    assert provider.headers[0]["Authorization"] == "Basic YmlsbGluZzpwQHNzIHdvcmQ="


def test_credentials_are_encoded_on_demand(provider: OAuthProvider) -> None:
    fetch(**credentials(provider, sasl_oauthbearer_header_urlencode=True))
    assert provider.headers[0]["Authorization"] == "Basic YmlsbGluZzpwJTQwc3Mrd29yZA=="


def test_an_assertion_replaces_the_secret(provider: OAuthProvider, tmp_path: Path, key: SigningKey) -> None:
    fetch(
        sasl_oauthbearer_token_endpoint_url=provider.token_url,
        sasl_oauthbearer_client_credentials_client_id="billing",
        sasl_oauthbearer_assertion_private_key_file=str(key_file(tmp_path, key, b"pass")),
        sasl_oauthbearer_assertion_private_key_passphrase="pass",
        sasl_oauthbearer_assertion_claim_iss="billing",
    )
    [form] = provider.forms
    assert form["grant_type"] == ["client_credentials"]
    assert form["client_id"] == ["billing"]
    assert form["client_assertion_type"] == ["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"]
    claims = jwt.decode(form["client_assertion"][0], key.private.public_key(), algorithms=["RS256"])
    assert claims["iss"] == "billing"
    assert claims["exp"] - claims["iat"] == 300
    assert claims["iat"] - claims["nbf"] == 60


def test_the_grant_jwt_bearer_posts_an_assertion(provider: OAuthProvider, tmp_path: Path, key: SigningKey) -> None:
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "k1", "alg": "none"}, "payload": {"sub": "svc", "team": "a"}}))
    fetch(
        sasl_oauthbearer_token_endpoint_url=provider.token_url,
        sasl_oauthbearer_jwt_retriever_class=RETRIEVER,
        sasl_oauthbearer_assertion_private_key_file=str(key_file(tmp_path, key)),
        sasl_oauthbearer_assertion_template_file=str(template),
        sasl_oauthbearer_assertion_claim_aud="login",
        sasl_oauthbearer_assertion_claim_jti_include=True,
        sasl_oauthbearer_assertion_claim_exp_seconds=60,
        sasl_oauthbearer_scope="kafka",
    )
    [form] = provider.forms
    assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    assert form["scope"] == ["kafka"]
    [assertion] = form["assertion"]
    assert jwt.get_unverified_header(assertion) == {"kid": "k1", "alg": "RS256", "typ": "JWT"}
    claims = jwt.decode(assertion, key.private.public_key(), algorithms=["RS256"], audience="login")
    assert (claims["sub"], claims["team"], claims["exp"] - claims["iat"]) == ("svc", "a", 60)
    assert claims["jti"]


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (401, b'{"error":"invalid_client","error_description":"unknown"}', SaslAuthenticationError,
         "answered with status 401: invalid_client, unknown$"),
        (400, b"no JSON", SaslAuthenticationError, "answered with status 400: no JSON$"),
        (400, f"got assertion={ASSERTION}&x".encode(), SaslAuthenticationError, r"got assertion=\[hidden\]&x$"),
        (400, f'{{"error":"bad {ASSERTION}"}}'.encode(), SaslAuthenticationError, r"bad \[hidden\]$"),
        (503, b"", OAuthTokenError, "answered with status 503$"),
        (302, b"", OAuthTokenError, "answered with status 302$"),
        (200, b"<html>", OAuthTokenError, "something other than JSON"),
        (200, b"[1]", OAuthTokenError, "without access_token or id_token, but with list"),
        (200, b'{"token_type":"Bearer"}', OAuthTokenError, r"but with \['token_type'\]"),
        (200, b'{"access_token":"a b"}', OAuthTokenError, "a token that cannot be sent"),
        (200, b" " * (2 << 20), OAuthTokenError, "more than 1048576 bytes"),
    ],
    ids=["refused", "no json", "echo", "echo in json", "down", "redirect", "html", "list", "no token",
         "no bearer token", "long"],
)  # fmt: skip
def test_what_an_endpoint_answers_instead_of_a_token_is_reported(
    provider: OAuthProvider, status: int, body: bytes, kind: type[KafkaError], text: str
) -> None:
    provider.responses = [(status, body)]
    with pytest.raises(kind, match=text) as caught:
        fetch(**credentials(provider))
    assert SECRET not in str(caught.value)


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    with oauth_provider() as gone:
        pass
    for url in (f"{gone.token_url}?code={CODE}", f"{gone.token_url}#{CODE}"):
        with pytest.raises(OAuthTokenError, match=f"{gone.token_url} could not be reached") as failed:
            fetch(**credentials(gone) | {"sasl_oauthbearer_token_endpoint_url": url})
        assert CODE not in str(failed.value)
        assert CODE not in OAuthSettings(token_endpoint_url=url).who
    for url in (f"https//u:{CODE}@host", f"ftp://{CODE}@host/", f"http://host/?code={CODE}", f"https://?{CODE}"):
        with pytest.raises(ConfigError) as refused:
            config(**credentials(gone) | {"sasl_oauthbearer_token_endpoint_url": url})
        assert CODE not in str(refused.value)


def test_a_token_in_place_of_a_function_is_not_shown() -> None:
    with pytest.raises(
        ConfigError, match="sasl_oauth_token_provider must be a function or None, not a value of the type str"
    ):
        config(sasl_oauth_token_provider=TOKEN)


def test_a_secret_for_this_machine_is_not_sent_to_a_proxy(
    provider: OAuthProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    with oauth_provider() as proxy:
        for name in ("http_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.token_url)
        monkeypatch.delenv("no_proxy", raising=False)
        fetch(**credentials(provider))
    assert proxy.forms == []


@pytest.mark.parametrize(
    "answer",
    [b"no HTTP\r\n\r\n", b"HTTP/1.1 500 x\r\nContent-Length: 99\r\n\r\n"],
    ids=["no http", "cut off"],
)
def test_an_endpoint_that_breaks_off_may_work_later(answer: bytes) -> None:
    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/token"
        with pytest.raises(OAuthTokenError, match=f"{url} (could not be reached|answered)"):
            Endpoint(url).request({"a": "b"})
        thread.join()


@pytest.mark.parametrize("status", [b"200 OK", b"400 Bad Request"], ids=["token", "refusal"])
def test_a_response_that_never_ends_is_given_up_at_the_deadline(status: bytes) -> None:
    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Length: 1000000\r\n\r\n")
            while True:
                connection.sendall(b" ")

    # Each time that it is read, a second has passed.
    clock = itertools.count().__next__
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/token"
        with pytest.raises(KafkaError) as caught:
            Endpoint(url, 10.0, clock=clock).request({"a": "b"})
        thread.join()
    text = "could not be reached: the response was not complete after 10 s" if status[:1] == b"2" else "status 400"
    assert text in caught.value.message


def test_an_endpoint_that_is_not_there_is_named() -> None:
    with oauth_provider() as gone:
        pass
    with pytest.raises(OAuthTokenError, match=f"{gone.token_url} could not be reached: "):
        fetch(**credentials(gone))


def test_a_token_is_read_from_a_file_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    fetch_again = settings(sasl_oauthbearer_token_endpoint_url=path.as_uri()).provide(lambda: 0)
    with pytest.raises(OAuthTokenError, match="no token could be read from"):
        fetch_again()
    for value in (TOKEN, "other"):
        path.write_text(f"{value}\n")
        assert fetch_again().value.reveal() == value


async def returns_a_coroutine() -> str:
    return TOKEN


@pytest.mark.parametrize(
    "function", [lambda: TOKEN, lambda: OAuthToken(TOKEN), returns_a_coroutine], ids=["text", "token", "coroutine"]
)
def test_an_application_returns_tokens(function: Any) -> None:
    assert fetch(sasl_oauth_token_provider=function).value.reveal() == TOKEN


def test_what_an_application_returns_instead_of_a_token_is_named_by_its_type() -> None:
    with pytest.raises(OAuthTokenError, match="must return OAuthToken or str, not bytes"):
        fetch(sasl_oauth_token_provider=TOKEN.encode)


def test_java_properties_are_enough(provider: OAuthProvider) -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.secured."
        "OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.login.refresh.window.factor": "0.5",
        "sasl.jaas.config": f'{MODULE} clientId="billing" clientSecret="s" scope="kafka" extension_cluster="lkc-1";',
    }
    found = AdminConfig.from_properties(properties).sasl
    assert isinstance(found, OAuthSettings)
    assert found.policy.window_factor == 0.5
    assert found.provide(lambda: 0)().extensions == {"cluster": "lkc-1"}
    assert provider.forms == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    assert provider.headers[0]["Authorization"] == "Basic YmlsbGluZzpz"


def test_unsecured_claims_in_jaas_make_tokens_without_signature() -> None:
    claims = (
        'unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_n="7" unsecuredLoginListClaim_scope="|a|b"'
    )
    found = settings(sasl_jaas_config=f'{MODULE} {claims} unsecuredLoginLifetimeSeconds="60";')
    assert found.who == "the unsecured token of 'alice'"
    token = found.provide(lambda: 1_000_000)()
    expected = {"sub": "alice", "n": 7, "scope": ["a", "b"], "iat": 1000, "exp": 1060}
    assert claims_of(token.value.reveal()) == expected


URL = "https://login.test/token"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "needs one of sasl_oauth_token_provider, .*; there is no such option"),
        ({"sasl_oauth_token_provider": str, "sasl_oauthbearer_token_endpoint_url": URL},
         "there is sasl_oauth_token_provider and sasl_oauthbearer_token_endpoint_url"),
        ({"sasl_oauthbearer_token_endpoint_url": URL}, "needs sasl_oauthbearer_client_credentials_client_id and"),
        ({"sasl_oauthbearer_token_endpoint_url": "http://login.test/token"}, "must begin with https://"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://u:p@login.test"}, "must not contain a user or a password"),
        ({"sasl_oauthbearer_token_endpoint_url": "login.test"}, "must be a URL such as"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://login.test:port"}, "must be a URL such as"),
        ({"sasl_oauthbearer_token_endpoint_url": "https://[::1"}, "must be a URL such as"),
        ({"sasl_oauthbearer_token_endpoint_url": URL, "sasl_oauthbearer_jwt_retriever_class": RETRIEVER},
         "JwtBearerJwtRetriever needs sasl_oauthbearer_assertion_private_key_file"),
        ({"sasl_oauthbearer_token_endpoint_url": URL, "sasl_oauthbearer_assertion_file": "/nowhere",
          "sasl_oauthbearer_client_credentials_client_secret": "s"}, "only one of .*client_secret and"),
        ({"sasl_oauthbearer_token_endpoint_url": URL, "sasl_oauthbearer_assertion_file": "/nowhere"},
         "sasl_oauthbearer_assertion_file: /nowhere cannot be read: No such file"),
        ({"sasl_oauthbearer_token_endpoint_url": URL, "sasl_oauthbearer_ca_location": "/nowhere",
          "sasl_oauthbearer_client_credentials_client_id": "a",
          "sasl_oauthbearer_client_credentials_client_secret": "s"}, "sasl_oauthbearer_ca_location: /nowhere is not"),
        ({"sasl_username": "a", "sasl_oauth_token_provider": str}, "sasl_username has no effect with .*OAUTHBEARER"),
        ({"sasl_login_refresh_window_factor": 2.0}, "must be from 0.5 to 1.0, not 2.0"),
        ({"sasl_login_callback_handler_class": "x"}, "sasl_login_callback_handler_class must be one of"),
    ],
    ids=["nothing", "two", "no client", "http", "password", "no url", "no port", "bracket", "no key", "two proofs",
         "no assertion", "no ca", "username", "factor", "handler"],
)  # fmt: skip
def test_options_that_cannot_get_a_token_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config(**options)


def test_options_of_oauth_have_no_effect_with_a_password() -> None:
    with pytest.raises(ConfigError, match="sasl_oauthbearer_scope has no effect with sasl_mechanism=PLAIN"):
        AdminConfig(
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            sasl_username="a",
            sasl_password="b",
            sasl_oauthbearer_scope="c",
        )


@pytest.mark.parametrize(
    ("content", "password", "text"),
    [("no key", None, "is not a private key in PEM"), (None, "wrong", "is not a private key in PEM that")],
    ids=["no key", "wrong password"],
)
def test_a_key_that_cannot_be_used_is_named_without_its_content(
    tmp_path: Path, key: SigningKey, content: str | None, password: str | None, text: str
) -> None:
    path = key_file(tmp_path, key, b"right")
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=text) as caught:
        config(
            sasl_oauthbearer_token_endpoint_url=URL,
            sasl_oauthbearer_assertion_private_key_file=str(path),
            sasl_oauthbearer_assertion_private_key_passphrase=password,
        )
    assert str(path) in str(caught.value)
    assert "PRIVATE" not in str(caught.value)


def test_no_secret_is_shown(provider: OAuthProvider) -> None:
    made = config(**credentials(provider))
    assert SECRET not in f"{made!r}{made.sasl!r}"
