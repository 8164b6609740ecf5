"""Where a client gets its tokens, from Kafka's settings: a function of the application, a token endpoint, or a file.

Elsewhere: the requests (`endpoint`), what proves who the client is instead of a secret (`assertions`), and when a token
is fetched (`source`). Source: KIP-255, KIP-768, KIP-1139, KIP-1258.
"""

from __future__ import annotations

import asyncio
import inspect
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote_plus

from kclient.errors import ConfigError, OAuthTokenError
from kclient.security.oauth.assertions import ALGORITHMS, AssertionSettings
from kclient.security.oauth.source import RefreshPolicy
from kclient.security.oauth.tokens import OAuthToken, check_extensions, unsecured_token
from kclient.security.oauth.urls import check_url, file_of, shown_url
from kclient.security.secret import Secret

if TYPE_CHECKING:
    import ssl

TokenProvider = Callable[[], Any]
"""A function that returns a token, as OAuthToken or text; it may be a coroutine function."""

_OPTION = "sasl_oauthbearer_"
_CLIENT_CREDENTIALS = "client_credentials"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
RETRIEVERS = {
    f"org.apache.kafka.common.security.oauthbearer.{name}": grant
    for name, grant in {
        "DefaultJwtRetriever": _CLIENT_CREDENTIALS,
        "ClientCredentialsJwtRetriever": _CLIENT_CREDENTIALS,
        "FileJwtRetriever": _CLIENT_CREDENTIALS,
        "JwtBearerJwtRetriever": _JWT_BEARER,
    }.items()
}
"""Kafka's classes that fetch tokens, with what they ask a token endpoint for; a file: URL is read by any of them."""


class OAuthSettings(NamedTuple):
    """The settings of OAUTHBEARER on a client. One of `provider`, `unsecured` and `token_endpoint_url` is set.

    Attributes:
        provider: the application's function.
        unsecured: the claims of tokens without signature, for tests; they live for `unsecured_seconds`.
        token_endpoint_url: https, http on the loopback interface, or a file: URL.
        retriever: Kafka's class, which selects the grant.
        scope: what to ask the endpoint for.
        client_id, client_secret: who asks.
        header_urlencode: whether to encode both as RFC 6749 demands, and Kafka does not by default.
        assertion: proves who asks instead of the secret.
        extensions: SASL extensions to send with each token.
        ca_location: a PEM file of the certificates to trust at the endpoint; None for those of the system.
        timeout: seconds of a request to the endpoint.
        policy: when to replace a token.
    """

    provider: TokenProvider | None = None
    unsecured: Mapping[str, Any] | None = None
    unsecured_seconds: int = 3600
    token_endpoint_url: str | None = None
    retriever: str = next(iter(RETRIEVERS))
    scope: str | None = None
    client_id: str | None = None
    client_secret: Secret | None = None
    header_urlencode: bool = False
    assertion: AssertionSettings = AssertionSettings()
    extensions: Mapping[str, str] = {}
    ca_location: str | None = None
    timeout: float = 10.0
    policy: RefreshPolicy = RefreshPolicy()

    @property
    def who(self) -> str:
        """Who logs in, for errors."""
        if self.provider is not None:
            return "the token of sasl_oauth_token_provider"
        if self.unsecured is not None:
            return f"the unsecured token of {self.unsecured.get('sub')!r}"
        url = self.token_endpoint_url or ""
        return f"the client {self.client_id!r}" if self.client_id else f"the token of {shown_url(url)}"

    @property
    def options(self) -> str:
        """The options to check if a broker refuses the token, for errors."""
        if self.provider is not None:
            return "what the provider returns, and the broker's sasl.oauthbearer settings"
        return f"{_OPTION}token_endpoint_url, {_OPTION}scope, and the broker's sasl.oauthbearer settings"

    @property
    def awaits(self) -> str:
        """The provider of tokens, for errors."""
        if self.provider is not None:
            return f"sasl_oauth_token_provider={_name_of(self.provider)}"
        if self.unsecured is not None:
            return "the making of an unsecured token"
        return f"the token of {shown_url(self.token_endpoint_url or '')}"

    def check(self) -> None:
        """Check that the settings say where tokens come from, and do not contradict each other.

        Raises:
            ConfigError: they do not, or a file cannot be used.
        """
        ways = {
            "sasl_oauth_token_provider": self.provider,
            f"{_OPTION}token_endpoint_url": self.token_endpoint_url,
            "the claims unsecuredLoginStringClaim_sub in sasl_jaas_config": self.unsecured,
        }
        given = [name for name, value in ways.items() if value is not None]
        if len(given) != 1:
            found = " and ".join(given) or "no such option"
            raise ConfigError(f"sasl_mechanism=OAUTHBEARER needs one of {', '.join(ways)}; there is {found}")
        check_extensions(self.extensions)
        if self.token_endpoint_url is None:
            return
        check_url(self.token_endpoint_url, f"{_OPTION}token_endpoint_url")
        if self.retriever not in RETRIEVERS:
            raise ConfigError(f"{_OPTION}jwt_retriever_class must be one of {', '.join(RETRIEVERS)}")
        if file_of(self.token_endpoint_url) is not None:
            return
        self._check_client()
        self._context()

    def _check_client(self) -> None:
        secret, assertion = f"{_OPTION}client_credentials_client_secret", f"{_OPTION}assertion_private_key_file"
        if self.assertion.is_set:
            if self.client_secret is not None:
                raise ConfigError(f"only one of {secret} and the {_OPTION}assertion options can be set")
            if self.assertion.algorithm not in ALGORITHMS:
                raise ConfigError(f"{_OPTION}assertion_algorithm must be one of {', '.join(ALGORITHMS)}")
            # The files are read again each time; reading them now reports what is wrong with them.
            self.assertion.assertion(lambda: 0)
        elif RETRIEVERS[self.retriever] == _JWT_BEARER:
            raise ConfigError(f"{_OPTION}jwt_retriever_class={self.retriever} needs {assertion}")
        elif self.client_id is None or self.client_secret is None:
            raise ConfigError(
                f"{_OPTION}token_endpoint_url needs {_OPTION}client_credentials_client_id and {secret}, or {assertion}"
            )

    def _context(self) -> ssl.SSLContext | None:
        if self.ca_location is None:
            return None
        # Not at the top: most clients need no HTTP.
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca_location)
        except (OSError, ssl.SSLError):
            raise ConfigError(f"{_OPTION}ca_location: {self.ca_location} is not a readable PEM file") from None

    def provide(
        self, time_ms: Callable[[], int], run: Callable[[Awaitable[Any]], Any] | None = None
    ) -> Callable[[], OAuthToken]:
        """Return a function that fetches a new token, and blocks meanwhile.

        Parameters:
            time_ms: milliseconds since the epoch.
            run: runs the coroutine of an application's function and returns its result; by default in a new event
                loop.
        """
        provider = self.provider
        if provider is not None:
            return lambda: _from_application(provider, run or _run_in_new_loop)
        if self.unsecured is not None:
            return lambda: self._unsecured(time_ms)
        url = self.token_endpoint_url or ""
        path = file_of(url)
        if path is None:
            from kclient.security.oauth.endpoint import Endpoint, token_of

            endpoint = Endpoint(url, self.timeout, self._context())
            return lambda: token_of(endpoint.request(*self._form(time_ms)), url, self.extensions)

        def read() -> OAuthToken:
            try:
                return OAuthToken(path.read_text(encoding="utf-8").strip(), extensions=self.extensions)
            except (OSError, UnicodeDecodeError, ConfigError) as error:
                reason = error.message if isinstance(error, ConfigError) else error
                raise OAuthTokenError(f"no token could be read from {path}: {reason}") from None

        return read

    def _unsecured(self, time_ms: Callable[[], int]) -> OAuthToken:
        now = time_ms() / 1000
        claims = {"exp": now + self.unsecured_seconds, "iat": now, **(self.unsecured or {})}
        return OAuthToken(unsecured_token(claims), extensions=self.extensions)

    def _form(self, time_ms: Callable[[], int]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the fields and headers of a token request."""
        grant = RETRIEVERS[self.retriever]
        form, headers = {"grant_type": grant}, {"Cache-Control": "no-cache"}
        if self.scope:
            form["scope"] = self.scope.strip()
        if grant == _JWT_BEARER:
            form["assertion"] = self.assertion.assertion(time_ms)
        elif self.assertion.is_set:
            form |= {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": self.assertion.assertion(time_ms)}
            form |= {"client_id": self.client_id} if self.client_id else {}
        else:
            encode = quote_plus if self.header_urlencode else str
            secret = self.client_secret.reveal() if self.client_secret else ""
            pair = f"{encode(self.client_id or '')}:{encode(secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        return form, headers


def _name_of(function: TokenProvider) -> str:
    """Return the name of a function; that of its class for another callable object."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _from_application(function: TokenProvider, run: Callable[[Awaitable[Any]], Any]) -> OAuthToken:
    found = function()
    if inspect.isawaitable(found):
        found = run(found)
    if isinstance(found, OAuthToken):
        return found
    if isinstance(found, str):
        return OAuthToken(found)
    # Not its value, which may be a token.
    raise OAuthTokenError(f"sasl_oauth_token_provider must return OAuthToken or str, not {type(found).__name__}")


def _run_in_new_loop(awaitable: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())
