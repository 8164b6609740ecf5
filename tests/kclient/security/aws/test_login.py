"""AWS_MSK_IAM: the signed message, where credentials and regions come from, and what refusals mean."""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import pytest

from kclient.config import AdminConfig
from kclient.errors import (
    ConfigError,
    CredentialsUnavailableError,
    DisconnectedError,
    KafkaError,
    SaslAuthenticationError,
)
from kclient.security.aws.credentials import AwsSession
from kclient.security.aws.login import HANDLER, MskLogin, MskSettings
from kclient.security.aws.signature import AwsCredentials, signed_payload
from kclient.security.sasl import ExplainedRefusalError
from kclient.security.secret import Secret
from tests.support.msk_server import RESPONSE, Account, MskVerifier

HOST = "b-1.orders.x1y2.c3.kafka.eu-west-1.amazonaws.com"
NOW = 1_700_000_000
KEYS = {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "wonder/land+"}
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without anything of AWS, and a process without botocore."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("botocore", "botocore.session", "botocore.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    return monkeypatch


class FakeError(Exception):
    """botocore's root of errors."""


class MissingProfileError(FakeError):
    """botocore's error of a profile that does not exist."""


class FakeBotocore(types.ModuleType):
    """The package botocore, whose sessions have the credentials of the test."""

    def __init__(self) -> None:
        super().__init__("botocore")
        self.found: AwsCredentials | None = None
        self.error: Exception | None = None
        self.region: str | None = None
        self.profiles: list[str | None] = []
        self.exceptions = types.SimpleNamespace(BotoCoreError=FakeError, ProfileNotFound=MissingProfileError)
        self.session = types.SimpleNamespace(Session=self._open)

    def _open(self, profile: str | None) -> Any:
        self.profiles.append(profile)
        return types.SimpleNamespace(get_credentials=self._fetch, get_config_variable=lambda name: self.region)

    def _fetch(self) -> Any:
        if self.error is not None:
            raise self.error
        if self.found is None:
            return None
        key, secret, token = self.found
        frozen = types.SimpleNamespace(
            access_key=key, secret_key=secret.reveal(), token=None if token is None else token.reveal()
        )
        return types.SimpleNamespace(get_frozen_credentials=lambda: frozen)


@pytest.fixture
def botocore(environment: pytest.MonkeyPatch) -> FakeBotocore:
    package = FakeBotocore()
    environment.setitem(sys.modules, "botocore", package)
    environment.setitem(sys.modules, "botocore.session", package.session)
    environment.setitem(sys.modules, "botocore.exceptions", package.exceptions)
    return package


def login(**settings: Any) -> MskLogin:
    return MskLogin(MskSettings(**settings), lambda: NOW * 1000)


def first_message(host: str = HOST, **settings: Any) -> dict[str, str]:
    exchange, blocks = login(**settings).start(host)
    assert blocks
    found: dict[str, str] = json.loads(next(exchange))
    return found


@pytest.mark.parametrize("token", [None, "session+token/=="], ids=["user", "role"])
def test_a_broker_verifies_the_signature(token: str | None) -> None:
    credentials = AwsCredentials("AKIA1", Secret("wonder/land+"), None if token is None else Secret(token))
    message = signed_payload(HOST, "eu-west-1", credentials, "kclient/1", NOW * 1000)
    verifier = MskVerifier({"AKIA1": Account("alice", "wonder/land+", token)}, clock=lambda: NOW + 10)
    assert verifier.check_message(message) == "alice"
    assert b"wonder" not in message


@pytest.mark.parametrize(
    ("account", "late", "what"),
    [
        (Account("alice", "other"), 0, "the signature"),
        (Account("alice", "wonder/land+", "token"), 0, "the token"),
        (Account("alice", "wonder/land+"), 900, "the time"),
        (Account("alice", "wonder/land+"), -301, "the time"),
    ],
    ids=["key", "token", "late", "early"],
)
def test_the_broker_of_these_tests_refuses_what_is_wrong(account: Account, late: int, what: str) -> None:
    message = signed_payload(HOST, "eu-west-1", AwsCredentials("AKIA1", Secret("wonder/land+")), "x", NOW * 1000)
    with pytest.raises(SaslAuthenticationError, match=what):
        MskVerifier({"AKIA1": account}, clock=lambda: NOW + late).check_message(message)


def test_the_message_names_host_region_and_client(environment: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        environment.setenv(name, value)
    message = first_message(f"{HOST}.")
    assert (message["host"], message["action"]) == (HOST, "kafka-cluster:Connect")
    assert message["x-amz-credential"] == "AKIA1/20231114/eu-west-1/kafka-cluster/aws4_request"
    assert message["user-agent"].startswith("kclient/")
    assert (message["x-amz-date"], message["x-amz-expires"]) == ("20231114T221320Z", "900")
    assert "x-amz-security-token" not in message


def test_the_environment_may_have_the_token_of_a_session(environment: pytest.MonkeyPatch) -> None:
    for name, value in {**KEYS, "AWS_SESSION_TOKEN": "t"}.items():
        environment.setenv(name, value)
    assert first_message()["x-amz-security-token"] == "t"


@pytest.mark.parametrize(
    ("host", "variables", "region"),
    [
        (HOST, {"AWS_REGION": "us-east-1"}, "eu-west-1"),
        ("boot-x.c1.kafka-serverless.ap-southeast-2.amazonaws.com", {}, "ap-southeast-2"),
        ("b-1.x.c2.kafka.cn-north-1.amazonaws.com.cn", {}, "cn-north-1"),
        ("kafka.us-gov-west-1.example.com", {}, "us-gov-west-1"),
        ("kafka.my-cluster-1.example.com", {"AWS_REGION": "us-east-1"}, "us-east-1"),
        ("kafka.example.com", {"AWS_DEFAULT_REGION": "us-east-2"}, "us-east-2"),
        ("10.0.0.1", {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-2"}, "us-east-1"),
    ],
)
def test_the_region_is_that_of_the_host_or_the_environment(host: str, variables: dict[str, str], region: str) -> None:
    assert AwsSession(None, variables).region(host) == region


def test_without_a_region_the_variable_is_named(environment: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExplainedRefusalError, match=r"kafka\.example\.com has no region of AWS") as caught:
        AwsSession(None, {}).region("kafka.example.com")
    assert caught.value.advice == "set AWS_REGION"


def test_without_credentials_the_ways_to_give_them_are_named(environment: pytest.MonkeyPatch) -> None:
    with pytest.raises(ExplainedRefusalError, match="there are no credentials of AWS") as caught:
        first_message()
    assert caught.value.advice.startswith("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pip install")


def test_credentials_come_from_botocore_if_it_is_installed(botocore: FakeBotocore) -> None:
    botocore.found = AwsCredentials("AKIA2", Secret("s"), Secret("t"))
    botocore.region = "us-west-2"
    message = first_message("kafka.example.com", profile="billing")
    assert message["x-amz-credential"].startswith("AKIA2/20231114/us-west-2/")
    assert message["x-amz-security-token"] == "t"
    assert botocore.profiles == ["billing"]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (None, ExplainedRefusalError, "there are no credentials of AWS"),
        (MissingProfileError("The config profile (x) could not be found"), ExplainedRefusalError, "profile"),
        (FakeError("no metadata"), CredentialsUnavailableError, "no credentials of AWS could be fetched: no metadata"),
    ],
    ids=["none", "profile", "failure"],
)
def test_errors_of_botocore_are_explained(
    botocore: FakeBotocore, error: Exception | None, kind: type[Exception], text: str
) -> None:
    botocore.error = error
    with pytest.raises(kind, match=text):
        first_message()


def refused(message: str, botocore: FakeBotocore) -> tuple[MskLogin, KafkaError]:
    """Log in, and have the broker refuse it."""
    botocore.found = AwsCredentials("AKIA2", Secret("s"))
    client = login()
    exchange, _ = client.start(HOST)
    next(exchange)
    with pytest.raises(KafkaError) as caught:
        exchange.throw(SaslAuthenticationError(message))
    return client, caught.value


def test_after_a_refusal_credentials_are_fetched_again(botocore: FakeBotocore) -> None:
    client, error = refused("[id]: Access denied", botocore)
    assert isinstance(error, SaslAuthenticationError)
    assert client.who == "the AWS access key AKIA2"
    next(client.start(HOST).exchange)
    next(client.start(HOST).exchange)
    assert len(botocore.profiles) == 2


@pytest.mark.parametrize(
    "message",
    ["[id]: Too many connects", "Cannot change principals during re-authentication from User.a: User.b"],
    ids=["rate", "session name"],
)
def test_a_refusal_that_passes_is_retriable(botocore: FakeBotocore, message: str) -> None:
    _, error = refused(message, botocore)
    assert isinstance(error, DisconnectedError)


@pytest.mark.parametrize("answer", [b"", b"{}", b"[1]", b"\xff", b'{"version":"1"}'], ids=repr)
def test_a_response_of_another_broker_is_refused(botocore: FakeBotocore, answer: bytes) -> None:
    botocore.found = AwsCredentials("AKIA2", Secret("s"))
    exchange, _ = login().start(HOST)
    next(exchange)
    with pytest.raises(SaslAuthenticationError, match="has no version 2020_10_22"):
        exchange.send(answer)


def test_the_response_of_amazon_ends_the_login(botocore: FakeBotocore) -> None:
    botocore.found = AwsCredentials("AKIA2", Secret("s"))
    exchange, _ = login().start(HOST)
    next(exchange)
    with pytest.raises(StopIteration):
        exchange.send(RESPONSE)


def config(**options: Any) -> AdminConfig:
    return AdminConfig(**{"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM", **options})


def test_the_properties_of_java_select_the_profile(botocore: FakeBotocore) -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f'{MODULE} awsProfileName="billing" awsDebugCreds="true";',
        "sasl.client.callback.handler.class": HANDLER,
    }
    assert AdminConfig.from_properties(properties).sasl == MskSettings("billing")
    assert config().sasl == MskSettings(None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"security_protocol": "SASL_PLAINTEXT"}, 'AWS_MSK_IAM needs security_protocol="SASL_SSL"'),
        ({"sasl_jaas_config": f'{MODULE} awsRoleArn="arn:aws:iam::1:role/x";'},
         "awsRoleArn in sasl_jaas_config is not implemented; use awsProfileName"),
        ({"sasl_jaas_config": f"{MODULE} awsProfileName=x;"}, "awsProfileName in sasl_jaas_config needs botocore"),
        ({"sasl_jaas_config": "x.PlainLoginModule required;"}, "needs IAMLoginModule"),
        ({"sasl_client_callback_handler_class": "x"}, "sasl_client_callback_handler_class must be one of None, "),
        ({"sasl_username": "alice"}, "sasl_username has no effect with sasl_mechanism=AWS_MSK_IAM"),
        ({"sasl_mechanism": "PLAIN", "sasl_client_callback_handler_class": HANDLER},
         "sasl_client_callback_handler_class has no effect with sasl_mechanism=PLAIN"),
    ],
    ids=["plaintext", "role", "profile", "module", "handler", "user", "mechanism"],
)  # fmt: skip
def test_settings_that_cannot_log_in_are_refused(
    environment: pytest.MonkeyPatch, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        config(**options)
