"""The token of a client: it is fetched for the first login, and replaced before it expires.

A provider that fails is asked again after a pause that grows; until then logins fail with its last error. A token that
a broker refuses is replaced once before the refusal is reported, because it may have been revoked. Elsewhere: where the
token comes from (`settings`), and the thread that fetches it (`kclient.net.login_thread`). Source: KIP-255, Kafka's
ExpiringCredentialRefreshingLogin.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Generator
from typing import NamedTuple

from kclient.errors import KafkaError, OAuthTokenError, SaslAuthenticationError
from kclient.security.oauth.exchange import oauth_client
from kclient.security.oauth.tokens import OAuthToken
from kclient.security.sasl import OAUTHBEARER, StartedExchange

_log = logging.getLogger(__name__)

_NEVER = math.inf


class FetchedToken(NamedTuple):
    """A token, and whether it was fetched because a broker had refused another one."""

    token: OAuthToken
    follows_refusal: bool


class RefreshPolicy(NamedTuple):
    """When to replace a token, and when to ask a provider again that has failed.

    Attributes:
        window_factor: the part of the lifetime after which to replace it.
        window_jitter: a random part of the lifetime up to this is added to that.
        min_period: seconds for which a token is kept at least.
        buffer: seconds before its expiry at which a token is replaced at the latest.
        retry, retry_max: seconds of the first and the longest pause after a failure.
    """

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period: float = 60.0
    buffer: float = 300.0
    retry: float = 0.1
    retry_max: float = 10.0

    def delay(self, lifetime: float, rng: random.Random) -> float:
        """Return the seconds after which to replace a token.

        Parameters:
            lifetime: the seconds until it expires.
        """
        delay = lifetime * (self.window_factor + self.window_jitter * rng.random())
        if self.min_period + self.buffer > lifetime:
            return max(0.0, delay)
        return max(self.min_period, min(delay, lifetime - self.buffer))


class TokenSource:
    """The token of one client, and its login with it (`kclient.security.sasl.Login`).

    Only the thread that computes logins calls `fetch` and `refresh`; the network thread uses the rest. A call that was
    given up on that thread may still return, and its token counts.

    Parameters:
        provide: returns a new token. Blocks.
        who: who logs in, for errors.
        options: the options to check if a broker refuses the token, for errors.
        awaits: the provider, for errors.
        policy: when to replace the token.
        clock: seconds.
        time_ms: milliseconds since the epoch.
        rng: for the jitter.

    Attributes:
        refresh_at: when to call `refresh`, in seconds of the clock.
    """

    mechanism = OAUTHBEARER

    def __init__(
        self,
        provide: Callable[[], OAuthToken],
        *,
        who: str,
        options: str,
        awaits: str,
        policy: RefreshPolicy,
        clock: Callable[[], float],
        time_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self.who = who
        self.options = options
        self.awaits = awaits
        self.refresh_at = _NEVER
        self._provide = provide
        self._policy = policy
        self._clock = clock
        self._time_ms = time_ms
        self._rng = rng
        self._token: FetchedToken | None = None
        self._failures = 0
        self._error: KafkaError | None = None
        self._retry_at = 0.0
        self._was_refused = False

    def start(self, host: str) -> StartedExchange:
        """See Login."""
        token = self._valid_token()
        if token is not None:
            return StartedExchange(self._exchange(lambda: token), blocks=False)
        return StartedExchange(self._exchange(self.fetch), blocks=True)

    def fetch(self) -> FetchedToken:
        """Return the token, and ask the provider for one unless the present one is valid. Blocks.

        Raises:
            OAuthTokenError: the provider fails, or has failed a moment ago.
            SaslAuthenticationError: the provider refuses this client.
        """
        token = self._valid_token()
        if token is not None:
            return token
        if self._error is not None and self._clock() < self._retry_at:
            raise self._error.without_frames()
        return self._ask()

    def refresh(self) -> None:
        """Replace the token; keep it if the provider fails. Blocks."""
        self.refresh_at = _NEVER
        try:
            self._ask()
            self._failures = 0
        except KafkaError as error:
            self.refresh_at = self._retry_at
            _log.warning("the token of %s could not be replaced, and is kept until it expires: %s", self.who, error)

    def _ask(self) -> FetchedToken:
        follows_refusal = self._was_refused
        try:
            token = self._provide()
        except KafkaError as error:
            raise self._failed(error) from None
        except BaseException as error:  # noqa: BLE001 - code of the application, which may call sys.exit
            # A traceback of the provider's may show what it has sent, so only the error itself is kept.
            failure = OAuthTokenError(f"the token provider failed: {type(error).__name__}: {error}")
            raise self._failed(failure) from None
        self._error = None
        fetched = FetchedToken(token, follows_refusal)
        if token.expires_at_ms is not None:
            lifetime = (token.expires_at_ms - self._time_ms()) / 1000
            if lifetime <= 0:
                raise self._failed(
                    OAuthTokenError(
                        f"the token provider returned a token that expired {-lifetime:.0f} s ago; check the clocks"
                    )
                )
            self._token = fetched
            self.refresh_at = self._clock() + self._policy.delay(lifetime, self._rng)
        return fetched

    def _failed(self, error: KafkaError) -> KafkaError:
        self._failures += 1
        pause = min(self._policy.retry_max, self._policy.retry * 2 ** min(self._failures - 1, 30))
        self._error = error
        self._retry_at = self._clock() + pause
        return error

    def _valid_token(self) -> FetchedToken | None:
        fetched = self._token
        expires_at_ms = None if fetched is None else fetched.token.expires_at_ms
        return None if expires_at_ms is None or expires_at_ms <= self._time_ms() else fetched

    def _exchange(self, fetch: Callable[[], FetchedToken]) -> Generator[bytes, bytes, None]:
        fetched = fetch()
        try:
            yield from oauth_client(fetched.token)
        except SaslAuthenticationError as refusal:
            if self._token is fetched:
                self._token, self.refresh_at = None, _NEVER
            if fetched.follows_refusal:
                # The next logins do not ask for tokens that will be refused as well.
                raise self._failed(refusal) from None
            self._was_refused = True
            raise OAuthTokenError(f"{refusal.message}; the client asks for a new token") from None
        self._failures = 0
        if fetched.follows_refusal:
            self._was_refused = False
            if self._token is fetched:
                # It may be revoked later, like any other.
                self._token = fetched._replace(follows_refusal=False)
