"""The messages of OAUTHBEARER."""

from __future__ import annotations

import pytest

from kclient.errors import ConfigError, SaslAuthenticationError
from kclient.security.oauth.exchange import (
    ClientMessage,
    TokenRefusedError,
    oauth_client,
    oauth_server,
    parse_client_message,
)
from kclient.security.oauth.tokens import OAuthToken, claims_of, unsecured_token

TOKEN = unsecured_token({"sub": "alice", "exp": 1000.5})


def test_the_clients_message_is_that_of_the_java_client() -> None:
    token = OAuthToken("abc.def.ghi", 1, {"logicalCluster": "lkc-1", "poolId": "p"})
    sent = next(oauth_client(token))
    assert sent == b"n,,\x01auth=Bearer abc.def.ghi\x01logicalCluster=lkc-1\x01poolId=p\x01\x01"
    assert parse_client_message(sent) == ("abc.def.ghi", "", {"logicalCluster": "lkc-1", "poolId": "p"})


def test_an_accepted_token_ends_both_sides() -> None:
    client, server = oauth_client(OAuthToken(TOKEN)), oauth_server(lambda message: message.token)
    assert next(server) == b""
    with pytest.raises(StopIteration) as accepted:
        server.send(next(client))
    assert accepted.value.value == (TOKEN, b"")
    with pytest.raises(StopIteration):
        client.send(b"")


def test_a_refused_token_is_acknowledged_before_the_login_fails() -> None:
    def refuse(message: ClientMessage) -> None:
        raise TokenRefusedError("it has expired")

    client, server = oauth_client(OAuthToken(TOKEN)), oauth_server(refuse)
    next(server)
    reason = server.send(next(client))
    assert reason == b'{"status":"invalid_token"}'
    assert client.send(reason) == b"\x01"
    with pytest.raises(SaslAuthenticationError, match=r'^[^:]*: {"status":"invalid_token"}$'):
        server.send(b"\x01")
    with pytest.raises(SaslAuthenticationError, match=r'the broker refused the token: {"status":"invalid_token"}$'):
        client.send(b"")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "first message$"),
        (b"n,,\x01auth=Bearer t\x01", "first message$"),
        (b"y,,\x01auth=Bearer t\x01\x01", "first message$"),
        (b"n,,\x01key=value\x01\x01", "'auth' not specified"),
        (b"n,,\x01auth=Basic dXNlcg==\x01\x01", "invalid 'auth' format"),
        (b"n,,\x01auth=Bearer a b\x01\x01", "invalid 'auth' format"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "first message$"),
        (b"n,a=x,y,\x01auth=Bearer t\x01\x01", "first message$"),
    ],
    ids=["empty", "one end", "binding", "no auth", "basic", "two words", "not ascii", "comma"],
)
def test_a_malformed_first_message_is_refused(message: bytes, text: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=f"Invalid OAUTHBEARER client first message.*{text}|{text}"):
        parse_client_message(message)


def test_an_authorization_id_is_read() -> None:
    assert parse_client_message(b"n,a=alice,\x01auth=bearer t\x01\x01") == ("t", "alice", {})


@pytest.mark.parametrize("token", ["", "x y", "x\x01y", "ü", "a" * 300_000], ids=["empty", "space", "end", "ü", "long"])
def test_what_is_no_token_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(ConfigError, match="is not a bearer token") as caught:
        OAuthToken(token)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize(
    ("extensions", "text"),
    [({"auth": "x"}, "'auth'"), ({"a1": "x"}, "'a1'"), ({"a": ""}, "is empty"), ({"a": "b\x01c"}, "other characters")],
    ids=["reserved", "digit", "empty", "separator"],
)
def test_an_extension_that_cannot_be_sent_is_refused(extensions: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        OAuthToken(TOKEN, extensions=extensions)


def test_the_expiry_is_that_of_the_claims() -> None:
    assert OAuthToken(TOKEN).expires_at_ms == 1_000_500
    assert OAuthToken(TOKEN, 7).expires_at_ms == 7
    assert OAuthToken("opaque").expires_at_ms is None
    assert claims_of(TOKEN) == {"sub": "alice", "exp": 1000.5}


@pytest.mark.parametrize(
    "claims", [{}, {"exp": "1"}, {"exp": True}, {"exp": float("inf")}], ids=["none", "text", "bool", "infinite"]
)
def test_a_token_whose_claims_do_not_say_when_it_expires_is_used_once(claims: dict[str, object]) -> None:
    assert OAuthToken(unsecured_token({"sub": "alice", **claims})).expires_at_ms is None


def test_no_token_is_shown() -> None:
    token = OAuthToken(TOKEN)
    assert TOKEN not in f"{token!r}{token}{ClientMessage(TOKEN, 'a', {})!r}"
