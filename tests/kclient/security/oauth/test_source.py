"""The token of a client: when it is fetched and replaced, and what happens if that fails or a broker refuses it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import random

import pytest

from kclient.errors import KafkaError, OAuthTokenError, SaslAuthenticationError
from kclient.security.oauth.source import RefreshPolicy, TokenSource
from kclient.security.oauth.tokens import OAuthToken

REFUSED = SaslAuthenticationError('{"status":"invalid_token"}')


class Provider:
    """A provider of tokens that live for so many seconds, None for tokens that do not say, and a clock that the test
    moves.
    """

    def __init__(self, lifetime: float | None = 3600.0, policy: RefreshPolicy | None = None) -> None:
        self.lifetime = lifetime
        self.now = 100.0
        self.calls = 0
        self.error: BaseException | None = None
        self.source = TokenSource(
            self.provide,
            who="the client 'billing'",
            options="the endpoint",
            awaits="the provider",
            policy=policy or RefreshPolicy(),
            clock=lambda: self.now,
            time_ms=lambda: int(self.now * 1000),
            rng=random.Random(1),
        )

    def provide(self) -> OAuthToken:
        self.calls += 1
        if self.error is not None:
            raise self.error
        expiry = None if self.lifetime is None else int((self.now + self.lifetime) * 1000)
        return OAuthToken(f"token-{self.calls}", expiry)

    def log_in(self) -> str:
        """Log in; return the token."""
        exchange, _ = self.source.start("kafka")
        sent = next(exchange)
        with pytest.raises(StopIteration):
            exchange.send(b"")
        return sent.decode().split("\x01")[1].removeprefix("auth=Bearer ")

    def be_refused(self) -> KafkaError:
        """Log in with a token that the broker refuses; return the error."""
        exchange, _ = self.source.start("kafka")
        next(exchange)
        assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
        with pytest.raises(KafkaError) as caught:
            exchange.throw(REFUSED)
        return caught.value


def test_one_token_serves_all_logins_and_only_the_first_blocks() -> None:
    provider = Provider()
    assert provider.source.start("kafka").blocks
    assert [provider.log_in() for _ in range(3)] == ["token-1"] * 3
    assert not provider.source.start("kafka").blocks
    assert provider.calls == 1


def test_a_token_is_replaced_after_most_of_its_lifetime() -> None:
    provider = Provider(lifetime=3600.0)
    assert provider.source.refresh_at == math.inf
    provider.log_in()
    due = provider.source.refresh_at - 100.0
    assert 0.8 * 3600 <= due <= 0.85 * 3600
    provider.now += due
    provider.source.refresh()
    assert provider.log_in() == "token-2"
    assert provider.source.refresh_at > provider.now + 2000


@pytest.mark.parametrize(
    ("lifetime", "low", "high"),
    [(3600.0, 2880.0, 3060.0), (400.0, 60.0, 100.0), (359.0, 287.0, 306.0), (900.0, 600.0, 600.0), (0.5, 0.4, 0.43)],
    ids=["an hour", "just above the buffers", "just below them", "buffer", "half a second"],
)
def test_the_delay_respects_the_buffers_unless_the_token_is_too_short_lived(
    lifetime: float, low: float, high: float
) -> None:
    delays = [RefreshPolicy().delay(lifetime, random.Random(seed)) for seed in range(20)]
    assert low <= min(delays) <= max(delays) <= high


def test_an_expired_token_is_not_used() -> None:
    provider = Provider(lifetime=10.0)
    provider.log_in()
    provider.now += 10.0
    assert provider.source.start("kafka").blocks
    assert provider.log_in() == "token-2"


def test_a_provider_that_fails_is_asked_again_after_growing_pauses() -> None:
    provider = Provider(policy=RefreshPolicy(retry=1.0, retry_max=4.0))
    provider.error = OSError("no route")
    asked = []
    for _ in range(128):
        before = provider.calls
        with pytest.raises(OAuthTokenError, match="the token provider failed: OSError: no route"):
            provider.source.fetch()
        if provider.calls > before:
            asked.append(provider.now)
        provider.now += 0.125
    assert [later - earlier for earlier, later in itertools.pairwise(asked)] == [1.0, 2.0, 4.0, 4.0, 4.0]
    provider.error = None
    provider.now += 4.0
    assert provider.source.fetch().token.value.reveal() == f"token-{provider.calls}"


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), SystemExit("no"), KeyboardInterrupt("no"), asyncio.CancelledError("no")], ids=repr
)
def test_whatever_a_provider_raises_is_an_error_that_may_pass(error: BaseException) -> None:
    provider = Provider()
    provider.error = error
    with pytest.raises(OAuthTokenError, match=f"the token provider failed: {type(error).__name__}: no"):
        provider.source.fetch()
    # The thread that refreshes tokens continues as well.
    provider.source.refresh()
    provider.error = None
    provider.now += 10.0
    assert provider.log_in() == "token-3"


def test_a_token_is_kept_while_its_replacement_fails(caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider()
    provider.log_in()
    provider.error = OAuthTokenError("the endpoint is down")
    provider.now = provider.source.refresh_at
    with caplog.at_level(logging.WARNING):
        provider.source.refresh()
    assert "the token of the client 'billing' could not be replaced, and is kept until it expires" in caplog.text
    assert provider.log_in() == "token-1"
    assert provider.now < provider.source.refresh_at <= provider.now + 0.1


def test_the_first_refusal_asks_for_another_token_and_the_second_is_final() -> None:
    provider = Provider()
    provider.log_in()
    first = provider.be_refused()
    assert isinstance(first, OAuthTokenError)
    assert first.retriable
    assert "invalid_token" in first.message
    second = provider.be_refused()
    assert isinstance(second, SaslAuthenticationError)
    assert provider.calls == 2
    # The provider is not asked again at once, and until then logins fail with the refusal.
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        provider.source.fetch()
    assert provider.calls == 2
    provider.now += 10.0
    assert provider.log_in() == "token-3"
    assert isinstance(provider.be_refused(), OAuthTokenError)


@pytest.mark.parametrize("lifetime", [3600.0, None], ids=["shared token", "token for each"])
def test_logins_at_the_same_time_are_refused_together_without_a_final_refusal(lifetime: float | None) -> None:
    provider = Provider(lifetime)
    if lifetime is not None:
        provider.log_in()
    exchanges = [provider.source.start("kafka").exchange for _ in range(3)]
    for exchange in exchanges:
        next(exchange)
    for exchange in exchanges:
        exchange.send(b'{"status":"invalid_token"}')
        with pytest.raises(OAuthTokenError, match="asks for a new token"):
            exchange.throw(REFUSED)
    assert isinstance(provider.be_refused(), SaslAuthenticationError)
    provider.now += 10.0
    provider.log_in()


def test_a_broker_that_accepts_the_old_token_does_not_hide_one_that_refuses_the_new_one() -> None:
    provider = Provider()
    provider.log_in()
    elsewhere, _ = provider.source.start("kafka-2")
    next(elsewhere)
    assert isinstance(provider.be_refused(), OAuthTokenError)
    with pytest.raises(StopIteration):
        elsewhere.send(b"")
    assert isinstance(provider.be_refused(), SaslAuthenticationError)


def test_a_provider_that_refuses_the_client_is_an_authentication_error() -> None:
    provider = Provider()
    provider.error = SaslAuthenticationError("the endpoint answered with status 401: invalid_client")
    with pytest.raises(SaslAuthenticationError, match="invalid_client"):
        provider.source.fetch()


def test_a_token_that_has_expired_already_points_to_the_clocks() -> None:
    provider = Provider(lifetime=-30.0)
    with pytest.raises(OAuthTokenError, match="expired 30 s ago; check the clocks"):
        provider.source.fetch()


def test_a_token_without_expiry_is_used_for_one_login() -> None:
    calls = []

    def provide() -> OAuthToken:
        calls.append(1)
        return OAuthToken("opaque")

    source = TokenSource(
        provide,
        who="x",
        options="y",
        awaits="the provider",
        policy=RefreshPolicy(),
        clock=lambda: 0.0,
        time_ms=lambda: 0,
        rng=random.Random(1),
    )
    for _ in range(2):
        exchange, blocks = source.start("kafka")
        assert blocks
        assert b"opaque" in next(exchange)
    assert len(calls) == 2
