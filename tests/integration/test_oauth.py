"""Clients and refbroker with OAUTHBEARER: providers, refused tokens, replaced keys, sessions that end with a token."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest

from kclient import Admin, AsyncAdmin, Consumer, OAuthToken, Producer
from kclient.errors import KafkaTimeoutError, SaslAuthenticationError
from kclient.security.oauth.tokens import unsecured_token
from refbroker.testing import RefBroker
from tests.support import clock
from tests.support.oauth_provider import AUDIENCE, ISSUER, OAuthProvider, SigningKey, oauth_provider
from tests.support.patience import ANSWER
from tests.support.sessions import check_connections
from tests.support.waiting import wait_until

pytestmark = pytest.mark.refbroker_only

USERS = {"alice": "wonder"}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
ENABLED = {"sasl.enabled.mechanisms": "OAUTHBEARER"}


@pytest.fixture
def unsecured() -> Iterator[RefBroker]:
    with RefBroker(sasl=USERS, settings=ENABLED) as broker:
        yield broker


def options(broker: RefBroker, **more: Any) -> dict[str, Any]:
    connection = {"bootstrap_servers": broker.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT"}
    return {**connection, "sasl_mechanism": "OAUTHBEARER", **more}


def token(user: str = "alice", seconds: float = 600.0) -> str:
    now = clock.time_ms() / 1000
    return unsecured_token({"sub": user, "iat": now, "exp": now + seconds})


def principals(broker: RefBroker) -> set[str]:
    return broker.call(lambda kafka: {str(connection.principal) for connection in kafka.server.connections})


def test_the_unsecured_tokens_of_a_jaas_config_log_in(unsecured: RefBroker) -> None:
    jaas = f'{MODULE} unsecuredLoginStringClaim_sub="alice";'
    login = options(unsecured, sasl_jaas_config=jaas)
    with Producer(**login) as producer, Consumer("t", auto_offset_reset="earliest", **login) as consumer:
        producer.send("t", b"v").result(ANSWER)
        assert [record.value for record in consumer.poll(ANSWER)] == [b"v"]
        assert principals(unsecured) == {"User:alice"}


def test_a_function_of_the_application_is_called_outside_of_the_network_thread(unsecured: RefBroker) -> None:
    threads: list[str] = []

    def provide() -> OAuthToken:
        threads.append(threading.current_thread().name)
        return OAuthToken(token("bob"), extensions={"traceId": "7"})

    with Admin(**options(unsecured, sasl_oauth_token_provider=provide)) as admin:
        assert admin.list_topics() == {}
        assert principals(unsecured) == {"User:bob"}
    assert len(threads) == 1
    assert "network" not in threads[0]


def test_a_refused_token_is_raised_and_a_later_one_recovers(unsecured: RefBroker) -> None:
    seconds = -60.0
    calls = 0

    def provide() -> OAuthToken:
        nonlocal calls
        calls += 1
        # The client takes it for valid; the broker does not.
        return OAuthToken(token(seconds=seconds), clock.time_ms() + 600_000)

    login = options(unsecured, sasl_oauth_token_provider=provide, sasl_login_retry_backoff_max_ms=100)
    with Admin(**login) as admin:
        for _ in range(2):
            with pytest.raises(SaslAuthenticationError, match=r"could not log in with OAUTHBEARER: .*invalid_token"):
                admin.list_topics()
        assert calls >= 2
        seconds = 600.0

        def works() -> bool:
            try:
                return admin.list_topics() == {}
            except SaslAuthenticationError:
                return False

        wait_until(works)


def test_a_provider_that_fails_is_named_in_the_timeout_and_asked_again(unsecured: RefBroker) -> None:
    broken = True

    def provide() -> str:
        if broken:
            raise OSError("the vault is sealed")
        return token()

    login = options(unsecured, sasl_oauth_token_provider=provide, default_api_timeout_ms=1000)
    with Admin(**login) as admin:
        with pytest.raises(KafkaTimeoutError, match="the token provider failed: OSError: the vault is sealed"):
            admin.list_topics()
        broken = False
        wait_until(lambda: _works(admin))


def _works(admin: Admin) -> bool:
    try:
        return admin.list_topics() == {}
    except KafkaTimeoutError:
        return False


@pytest.mark.not_simulated("blocks a thread")
def test_a_provider_that_hangs_is_named_and_delays_no_close(unsecured: RefBroker) -> None:
    released = threading.Event()
    login = options(
        unsecured,
        sasl_oauth_token_provider=lambda: str(released.wait()),
        socket_connection_setup_timeout_ms=100,
        socket_connection_setup_timeout_max_ms=100,
        default_api_timeout_ms=1000,
    )
    text = "sasl_oauth_token_provider=.*<lambda> (did not return within|is not called)"
    with Admin(**login) as admin, pytest.raises(KafkaTimeoutError, match=text):
        admin.list_topics()
    released.set()


@pytest.mark.not_simulated("blocks a thread")
def test_a_client_logs_in_although_its_provider_hangs_once(unsecured: RefBroker) -> None:
    released = threading.Event()
    calls: list[str] = []

    def provide() -> str:
        calls.append(threading.current_thread().name)
        if len(calls) == 1:
            released.wait()
        return token()

    timeouts = dict.fromkeys(("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"), 100)
    login = options(unsecured, sasl_oauth_token_provider=provide, **timeouts)
    try:
        with Admin(**login) as admin:
            assert admin.list_topics() == {}
    finally:
        released.set()
    assert len(calls) >= 2


def test_sessions_end_with_their_token_and_clients_log_in_again(unsecured: RefBroker) -> None:
    tokens = 0

    def provide() -> str:
        nonlocal tokens
        tokens += 1
        return token(seconds=1.5)

    with Producer(**options(unsecured, sasl_oauth_token_provider=provide)) as producer:
        end = clock.monotonic() + 4.0
        while clock.monotonic() < end:
            producer.send("t", b"v").result(ANSWER)
        check_connections(producer, 2)
    assert tokens >= 3


def test_an_idle_client_replaces_its_token(unsecured: RefBroker) -> None:
    calls: list[float] = []

    def provide() -> str:
        calls.append(clock.monotonic())
        return token(seconds=1.0)

    with Admin(**options(unsecured, sasl_oauth_token_provider=provide)) as admin:
        admin.list_topics()
        # Nothing is connected now, so that only the client itself can want another token.
        unsecured.stop()
        wait_until(lambda: len(calls) >= 3)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_coroutine_of_an_async_client_runs_in_its_event_loop(anyio_backend: str) -> None:
    thread = threading.current_thread()

    async def provide() -> str:
        await anyio.sleep(0.001)
        assert threading.current_thread() is thread
        return token()

    with RefBroker(sasl=USERS, settings=ENABLED) as broker:
        async with AsyncAdmin(**options(broker, sasl_oauth_token_provider=provide)) as admin:
            assert await admin.list_topics() == {}


async def coroutine() -> str:
    return token()


def test_a_coroutine_of_a_blocking_client_runs_in_a_loop_of_its_own(unsecured: RefBroker) -> None:
    provider: Callable[[], Awaitable[str]] = coroutine
    with Admin(**options(unsecured, sasl_oauth_token_provider=provider)) as admin:
        assert admin.list_topics() == {}


@pytest.mark.not_simulated("connects to an HTTP server")
class TestWithAProvider:
    """A provider with a token endpoint and keys, over HTTP."""

    @pytest.fixture
    def provider(self) -> Iterator[OAuthProvider]:
        with oauth_provider() as running:
            running.token = self.signed(running.key)
            yield running

    @pytest.fixture
    def broker(self, provider: OAuthProvider) -> Iterator[RefBroker]:
        settings = {
            **ENABLED,
            "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": HANDLER,
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        with RefBroker(sasl=USERS, settings=settings) as running:
            yield running

    def signed(self, key: SigningKey, **claims: Any) -> str:
        now = clock.time_ms() // 1000
        return key.token(**({"sub": "alice", "iat": now, "exp": now + 600, "iss": ISSUER, "aud": AUDIENCE} | claims))

    def login(self, broker: RefBroker, provider: OAuthProvider) -> dict[str, Any]:
        return options(
            broker,
            sasl_oauthbearer_token_endpoint_url=provider.token_url,
            sasl_oauthbearer_client_credentials_client_id="billing",
            sasl_oauthbearer_client_credentials_client_secret="secret",
        )

    def test_a_token_of_the_endpoint_is_verified_by_its_keys(self, broker: RefBroker, provider: OAuthProvider) -> None:
        with Admin(**self.login(broker, provider)) as admin:
            assert admin.list_topics() == {}
            assert principals(broker) == {"User:alice"}
        assert provider.key_requests == 1

    def test_a_client_that_the_endpoint_refuses_learns_it_at_once(
        self, broker: RefBroker, provider: OAuthProvider
    ) -> None:
        provider.responses = [(401, b'{"error":"invalid_client"}')] * 20
        with Admin(**self.login(broker, provider)) as admin, pytest.raises(SaslAuthenticationError) as caught:
            admin.list_topics()
        text = f"the client 'billing' could not log in with OAUTHBEARER: {provider.token_url} answered with status 401"
        assert text in str(caught.value)

    def test_a_key_that_the_broker_lacks_is_fetched(self, broker: RefBroker, provider: OAuthProvider) -> None:
        key = SigningKey("two")
        provider.keys.append(key)
        provider.token = self.signed(key)
        with Admin(**self.login(broker, provider)) as admin:
            # The first login fails, which has the broker fetch the keys and the client fetch another token.
            assert admin.list_topics() == {}
        assert provider.key_requests == 2

    def test_a_token_for_somebody_else_is_refused(self, broker: RefBroker, provider: OAuthProvider) -> None:
        provider.token = self.signed(provider.key, aud="other")
        refused = pytest.raises(SaslAuthenticationError, match=r'{"status":"invalid_token"}')
        with Admin(**self.login(broker, provider)) as admin, refused:
            admin.list_topics()
