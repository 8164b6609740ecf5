"""OAUTHBEARER of a listener, from its settings: which tokens it accepts, and where their keys come from.

Kafka accepts unsecured tokens unless a callback handler is set, and so does this broker; keys that no listener uses are
refused. Elsewhere: the tokens (`refbroker.security.oauth`), and the keys
(`refbroker.security.jwks`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from kclient.errors import ConfigError
from kclient.security.jaas import JaasModule, parse_jaas
from kclient.security.oauth.urls import check_url, file_of, shown_url
from kclient.security.sasl import OAUTHBEARER
from kclient.security.secret import Secret
from refbroker.config import BrokerConfig
from refbroker.runtime.background import Background
from refbroker.runtime.threads import in_thread
from refbroker.security.jwks import KeySet
from refbroker.security.oauth import ClaimNames, SignedTokens, TokenValidator, UnsecuredTokens
from refbroker.settings.values import parse_list

_HANDLERS = tuple(
    f"org.apache.kafka.common.security.oauthbearer.{package}OAuthBearerValidatorCallbackHandler"
    for package in ("", "secured.")
)
HANDLER = "sasl.server.callback.handler.class"
_KEYS = "sasl.oauthbearer.jwks.endpoint.url"
_REFRESH = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_UNSECURED = "unsecuredValidator"
_MODULE = "OAuthBearerLoginModule"


class KeyRefresh:
    """The refreshes of one listener's keys: at intervals, and when a key is missing. Belongs to the event loop.

    Parameters:
        keys: the keys.
        interval_ms: the time between two refreshes.
    """

    def __init__(self, keys: KeySet, interval_ms: int) -> None:
        self._keys = keys
        self._interval_ms = interval_ms
        self._task: asyncio.Task[None] | None = None

    def plan(self, background: Background) -> None:
        """Refresh the keys from the start of the periodic tasks on."""
        background.every("keys of OAUTHBEARER", lambda: self._interval_ms, self._refresh)
        self._keys.on_missing = self._refresh_now

    async def _refresh(self) -> None:
        await in_thread(self._keys.refresh)

    def _refresh_now(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._refresh(), name="refbroker keys of OAUTHBEARER")


class OAuthListener:
    """The OAUTHBEARER of one listener.

    Parameters:
        config: the broker's settings.
        listener: its name.
        clock: milliseconds since the epoch.

    Attributes:
        validator: the tokens that it accepts.
        refresh: the refreshes of the keys that sign them; None for unsecured tokens.

    Raises:
        ConfigError: a setting is missing or invalid, or the keys cannot be fetched.
    """

    def __init__(self, config: BrokerConfig, listener: str, clock: Callable[[], int]) -> None:
        self._config = config
        self._listener = listener
        self._clock = clock
        self.refresh: KeyRefresh | None = None
        handler = config.layers.set_values.get(self._name(HANDLER))
        if handler in _HANDLERS:
            interval_ms = self._number(_REFRESH)
            if interval_ms <= 0:
                raise ConfigError(f"{_REFRESH} of listener {listener} must be more than 0, not {interval_ms}")
            keys = self._load_keys()
            self.refresh = KeyRefresh(keys, interval_ms)
            self.validator: TokenValidator = self._signed(keys)
        elif handler is not None:
            raise ConfigError(f"{self._name(HANDLER)} must be {_HANDLERS[0]}, or not be set for unsecured tokens")
        else:
            self.validator = self._unsecured(self._jaas())

    def _load_keys(self) -> KeySet:
        url = self._text(_KEYS)
        if url is None:
            raise ConfigError(f"{self._name(HANDLER)} needs {_KEYS}")
        check_url(url, _KEYS)
        path = file_of(url)
        return KeySet(_http(url) if path is None else _file(path), shown_url(url), self._clock)

    def _signed(self, keys: KeySet) -> SignedTokens:
        names = ClaimNames(
            self._text("sasl.oauthbearer.sub.claim.name") or "sub",
            self._text("sasl.oauthbearer.scope.claim.name") or "scope",
        )
        return SignedTokens(
            keys,
            self._clock,
            issuer=self._text("sasl.oauthbearer.expected.issuer"),
            audiences=parse_list(self._text("sasl.oauthbearer.expected.audience") or ""),
            skew_ms=self._number("sasl.oauthbearer.clock.skew.seconds") * 1000,
            claims=names,
        )

    def _unsecured(self, module: JaasModule) -> UnsecuredTokens:
        skew = module.text(f"{_UNSECURED}AllowableClockSkewMs") or "0"
        if not skew.strip().isdigit():
            raise ConfigError(f"{_UNSECURED}AllowableClockSkewMs must be a number of milliseconds, not {skew!r}")
        return UnsecuredTokens(
            self._clock,
            claims=ClaimNames(
                module.text(f"{_UNSECURED}PrincipalClaimName") or "sub",
                module.text(f"{_UNSECURED}ScopeClaimName") or "scope",
            ),
            required_scope=(module.text(f"{_UNSECURED}RequiredScope") or "").split(),
            skew_ms=int(skew),
        )

    def _jaas(self) -> JaasModule:
        setting = self._name("sasl.jaas.config")
        text = self._config.layers.set_values.get(setting)
        if text is None:
            raise ConfigError(f"{setting} is missing: {_MODULE} accepts unsecured tokens, or set {_KEYS} and {HANDLER}")
        module = parse_jaas(Secret(text), setting)
        if module.name != _MODULE:
            raise ConfigError(f"{setting} must have {_MODULE}, not {module.name}")
        return module

    def _name(self, setting: str) -> str:
        return f"listener.name.{self._listener.lower()}.{OAUTHBEARER.lower()}.{setting}"

    def _text(self, setting: str) -> str | None:
        """Return a setting of the mechanism on this listener, of the listener, or of the broker."""
        own = self._config.layers.set_values.get(self._name(setting))
        return self._config.listener_text(self._listener, setting) if own is None else own

    def _number(self, setting: str) -> int:
        text = self._text(setting) or "0"
        try:
            return int(text)
        except ValueError:
            raise ConfigError(f"{setting} of listener {self._listener} must be a whole number, not {text!r}") from None


def check_keys_are_used(config: BrokerConfig, listeners: Iterable[OAuthListener]) -> None:
    """Check that a listener uses the keys in the settings, so that nobody takes unsecured tokens for signed ones.

    Raises:
        ConfigError: none does.
    """
    if config.text(_KEYS) is None or any(listener.refresh is not None for listener in listeners):
        return
    raise ConfigError(
        f"{_KEYS} has no effect unless listener.name.LISTENER.{OAUTHBEARER.lower()}.{HANDLER} is {_HANDLERS[0]}"
    )


def _http(url: str) -> Callable[[], bytes]:
    # Not at the top: most brokers need no HTTP.
    from kclient.security.oauth.endpoint import Endpoint

    return Endpoint(url).request


def _file(path: Path) -> Callable[[], bytes]:
    return path.read_bytes
