"""Delegation tokens of Apache Kafka and refbroker: they give the same answers, and kclient works with both alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kclient import Admin, Producer
from kclient.admin import AclBinding, AclBindingFilter, AclOperation, AclResourceType
from kclient.errors import (
    DelegationTokenAuthorizationError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    InvalidPrincipalTypeError,
    KafkaError,
    SaslAuthenticationError,
    UnsupportedByAuthenticationError,
)
from kclient.security.scram import MECHANISMS
from refbroker.testing import RefBroker
from tests.interop.authorizing import LISTENER, SETTINGS, AuthorizingKafka
from tests.interop.token_plays import TokenPlay, play, play_without_key
from tests.support.patience import CHANGE
from tests.support.waiting import wait_until

KEY = "delegation.token.secret.key"
LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0"


class Target(NamedTuple):
    """The addresses of a broker: one for clients without a login, one for those with one."""

    plaintext: str
    sasl: str

    def options(self, user: str) -> dict[str, Any]:
        """Return the options of a user, whose password is the name."""
        login = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": user}
        return {"bootstrap_servers": self.sasl, "security_protocol": "SASL_PLAINTEXT", **login}


@pytest.fixture(scope="module")
def kafka_target(needs_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with AuthorizingKafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield Target(kafka.address(), kafka.address(listener=LISTENER))


@pytest.fixture(scope="module")
def own_target() -> Iterator[Target]:
    with RefBroker(settings={**SETTINGS, "listeners": LISTENERS}) as broker:
        yield Target(broker.address("PLAINTEXT"), broker.address(LISTENER))


@pytest.fixture(params=["kafka", "refbroker"])
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.getfixturevalue("kafka_target" if request.param == "kafka" else "own_target")
    return found


@pytest.fixture
def admins(target: Target) -> Iterator[Callable[[str], Admin]]:
    """Admin clients by user; the ACLs that they make are removed."""
    with ExitStack() as stack:
        known: dict[str, Admin] = {}

        def admin(user: str) -> Admin:
            if user not in known:
                known[user] = stack.enter_context(Admin(**target.options(user)))
            return known[user]

        yield admin
        admin("root").delete_acls(AclBindingFilter(AclResourceType.USER))


def eventually(call: Callable[[], Any], error: type[KafkaError]) -> None:
    """Wait until a call fails with an error; another one is that the controller does not know the token yet."""

    def fails() -> bool:
        try:
            call()
        except error:
            return True
        except DelegationTokenNotFoundError:
            pass
        return False

    wait_until(fails, CHANGE)


def compare(kafka: Target, own: Target, play: Callable[[TokenPlay], None]) -> None:
    """Have both brokers play, and compare what they answer."""
    told = []
    for target in (kafka, own):
        with ExitStack() as stack:
            one = TokenPlay(stack, *target)
            play(one)
            told.append(one.told)
    assert [what for what, _ in told[1]] == [what for what, _ in told[0]]
    different = [(what, expected, found) for (what, expected), (_, found) in zip(*told) if expected != found]
    assert not different, "\n".join(f"{what}:\n  Kafka     {a}\n  refbroker {b}" for what, a, b in different)


def test_both_brokers_answer_alike(kafka_target: Target, own_target: Target) -> None:
    compare(kafka_target, own_target, play)


def test_both_brokers_answer_alike_without_a_key(needs_kafka: None, tmp_path: Path) -> None:
    settings = {name: value for name, value in SETTINGS.items() if name != KEY}
    with (
        AuthorizingKafka(tmp_path, settings) as kafka,
        RefBroker(settings={**settings, "listeners": LISTENERS}) as broker,
    ):
        compare(
            Target(kafka.address(), kafka.address(listener=LISTENER)),
            Target(broker.address("PLAINTEXT"), broker.address(LISTENER)),
            play_without_key,
        )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_logs_in_with_a_token_until_it_is_removed(
    target: Target, admins: Callable[[str], Admin], mechanism: str
) -> None:
    alice = admins("alice")
    token = alice.create_delegation_token(renewers="User:bob", max_lifetime=3600)
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
    assert token.max_timestamp == token.expiry_timestamp == token.issue_timestamp + 3_600_000
    wait_until(lambda: token in alice.describe_delegation_token("User:alice"), CHANGE)
    login: dict[str, Any] = {
        "bootstrap_servers": target.sasl,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": token.jaas_config(),
    }
    topic = f"tokens-{mechanism.lower()}"
    admins("root").create_acls(AclBinding(AclResourceType.TOPIC, topic, "User:alice", AclOperation.ALL))
    with Producer(**login) as producer:
        assert producer.send(topic, b"v").result(CHANGE).offset == 0
    with Admin(**login) as holder, pytest.raises(UnsupportedByAuthenticationError):
        holder.create_delegation_token()
    assert admins("bob").renew_delegation_token(token.hmac) == token.max_timestamp
    assert alice.expire_delegation_token(token.hmac, expiry_period=60) < token.max_timestamp
    alice.expire_delegation_token(token.hmac)
    wait_until(lambda: token.token_id not in [each.token_id for each in alice.describe_delegation_token()], CHANGE)
    with Admin(**login) as holder, pytest.raises(SaslAuthenticationError, match="could not log in"):
        holder.describe_cluster()


def test_an_acl_lets_a_user_create_and_see_tokens_of_another(admins: Callable[[str], Admin]) -> None:
    root, alice, bob = map(admins, ("root", "alice", "bob"))
    with pytest.raises(DelegationTokenAuthorizationError):
        alice.create_delegation_token(owner="User:bob")
    on_bob = partial(AclBinding, AclResourceType.USER, "User:bob", "User:alice")
    root.create_acls([on_bob(AclOperation.CREATE_TOKENS), on_bob(AclOperation.DESCRIBE_TOKENS)])
    own = bob.create_delegation_token()
    wait_until(lambda: own in alice.describe_delegation_token(), CHANGE)
    token = alice.create_delegation_token(owner="User:bob")
    assert (token.owner, token.requester) == ("User:bob", "User:alice")
    wait_until(lambda: {own, token} <= set(bob.describe_delegation_token()), CHANGE)
    eventually(lambda: alice.renew_delegation_token(token.hmac), DelegationTokenOwnerMismatchError)
    assert bob.renew_delegation_token(token.hmac) <= token.max_timestamp


def test_errors_have_the_same_types(target: Target, admins: Callable[[str], Admin]) -> None:
    alice = admins("alice")
    with Admin(bootstrap_servers=target.plaintext) as anonymous, pytest.raises(UnsupportedByAuthenticationError):
        anonymous.create_delegation_token()
    with pytest.raises(InvalidPrincipalTypeError):
        alice.create_delegation_token(renewers="Group:g")
    with pytest.raises(DelegationTokenNotFoundError):
        alice.renew_delegation_token("bm90aGluZw==")
    short = alice.create_delegation_token(max_lifetime=0.001)
    eventually(lambda: alice.renew_delegation_token(short.hmac), DelegationTokenExpiredError)
    alice.expire_delegation_token(short.hmac)
    eventually(lambda: alice.expire_delegation_token(short.hmac), DelegationTokenNotFoundError)
