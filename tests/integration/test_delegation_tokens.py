"""Delegation tokens: clients create them, log in with them, renew them, and lose them; also on the command line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kclient import Admin, AsyncAdmin, Consumer, Producer
from kclient.admin import AclBinding, AclOperation, AclResourceType, DelegationToken
from kclient.errors import (
    DelegationTokenAuthorizationError,
    DelegationTokenDisabledError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    InvalidPrincipalTypeError,
    SaslAuthenticationError,
    TopicAuthorizationError,
    UnsupportedByAuthenticationError,
)
from kclient.security.scram import MECHANISMS
from refbroker.testing import RefBroker
from tests.support import clock
from tests.support.command_line import Cli
from tests.support.patience import ANSWER
from tests.support.sessions import check_connections
from tests.support.waiting import wait_until

pytestmark = pytest.mark.refbroker_only

USERS = {"root": "r", "anne": "a", "bob": "b"}
SETTINGS = {"delegation.token.secret.key": "k3y"}
HOUR, DAY = 3600, 86400


@pytest.fixture
def broker() -> Iterator[RefBroker]:
    with RefBroker(sasl=USERS, acls=True, settings=SETTINGS) as running:
        running.create_topic("orders")
        yield running


@pytest.fixture
def root(broker: RefBroker) -> Iterator[Admin]:
    with Admin(**broker.client_options) as admin:
        yield admin


@pytest.fixture
def anne(broker: RefBroker) -> Iterator[Admin]:
    with Admin(**as_user(broker, "anne")) as admin:
        yield admin


def as_user(broker: RefBroker, user: str) -> dict[str, Any]:
    return {**broker.client_options, "sasl_username": user, "sasl_password": USERS[user]}


def by_token(broker: RefBroker, token: DelegationToken, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    """Return the options of a client that logs in with a token."""
    options = {
        name: value for name, value in broker.client_options.items() if name not in ("sasl_username", "sasl_password")
    }
    return {**options, "sasl_mechanism": mechanism, "sasl_jaas_config": token.jaas_config()}


def ids(tokens: list[DelegationToken]) -> list[str]:
    return [token.token_id for token in tokens]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_with_a_token_may_do_what_its_owner_may(broker: RefBroker, anne: Admin, mechanism: str) -> None:
    token = anne.create_delegation_token()
    assert token.owner == token.requester == "User:anne"
    options = by_token(broker, token, mechanism)
    with Producer(enable_idempotence=False, **options) as producer, pytest.raises(TopicAuthorizationError):
        producer.send("orders", b"v").result(ANSWER)
    broker.allow("User:anne", "WRITE", topic="orders")
    with Producer(**options) as producer:
        assert producer.send("orders", b"v").result(ANSWER).offset == 0
    broker.allow("User:anne", "READ", topic="orders")
    with Consumer(auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([("orders", 0)])
        assert [record.value for record in consumer.poll(ANSWER)] == [b"v"]


def test_the_principal_of_a_token_is_its_owner(broker: RefBroker, root: Admin) -> None:
    token = root.create_delegation_token(owner="User:bob")
    assert (token.owner, token.requester) == ("User:bob", "User:root")
    with Admin(**by_token(broker, token)) as bob:
        bob.describe_cluster()
        found = broker.call(lambda kafka: {str(each.principal) for each in kafka.server.connections})
        assert found == {"User:root", "User:bob"}


def test_a_token_cannot_make_or_change_tokens(broker: RefBroker, anne: Admin) -> None:
    token = anne.create_delegation_token()
    with Admin(**by_token(broker, token)) as holder:
        for call in (
            holder.create_delegation_token,
            lambda: holder.renew_delegation_token(token.hmac),
            lambda: holder.expire_delegation_token(token.hmac),
            holder.describe_delegation_token,
        ):
            with pytest.raises(UnsupportedByAuthenticationError):
                call()


def test_a_client_that_has_not_logged_in_gets_no_token() -> None:
    with (
        RefBroker(settings=SETTINGS, acls=False) as broker,
        Admin(**broker.client_options) as admin,
        pytest.raises(UnsupportedByAuthenticationError),
    ):
        admin.create_delegation_token()


def test_a_broker_without_a_key_says_so() -> None:
    with (
        RefBroker(sasl=USERS) as broker,
        Admin(**broker.client_options) as admin,
        pytest.raises(DelegationTokenDisabledError),
    ):
        admin.create_delegation_token()


def test_another_owner_needs_an_acl(broker: RefBroker, anne: Admin) -> None:
    with pytest.raises(DelegationTokenAuthorizationError):
        anne.create_delegation_token(owner="User:bob")
    broker.allow("User:anne", "CREATE_TOKENS", user="User:bob")
    token = anne.create_delegation_token(owner="User:bob")
    with pytest.raises(DelegationTokenOwnerMismatchError):
        anne.renew_delegation_token(token.hmac)
    with pytest.raises(InvalidPrincipalTypeError):
        anne.create_delegation_token(renewers="Group:staff")


def test_a_token_is_renewed_until_the_end_of_its_lifetime(broker: RefBroker, anne: Admin) -> None:
    broker.clock.hold()
    token = anne.create_delegation_token(max_lifetime=30 * HOUR, renewers="User:bob")
    assert token.expiry_timestamp == token.issue_timestamp + DAY * 1000
    assert token.max_timestamp == token.issue_timestamp + 30 * HOUR * 1000
    broker.clock.step(HOUR)
    assert anne.renew_delegation_token(token.hmac, renew_period=60) == token.issue_timestamp + (HOUR + 60) * 1000
    with Admin(**as_user(broker, "bob")) as bob:
        assert bob.renew_delegation_token(token.hmac.reveal()) == token.issue_timestamp + 25 * HOUR * 1000
    broker.clock.step(10 * HOUR)
    assert anne.renew_delegation_token(token.hmac) == token.max_timestamp


def test_a_token_that_has_expired_is_removed_after_a_while(broker: RefBroker, anne: Admin) -> None:
    broker.clock.hold()
    token = anne.create_delegation_token(max_lifetime=60)
    broker.clock.step(61)
    with pytest.raises(DelegationTokenExpiredError):
        anne.renew_delegation_token(token.hmac)
    # It is found until the broker has checked, once an hour.
    assert ids(anne.describe_delegation_token()) == [token.token_id]
    broker.clock.step(HOUR)
    wait_until(lambda: anne.describe_delegation_token() == [])
    with pytest.raises(DelegationTokenNotFoundError):
        anne.renew_delegation_token(token.hmac)


def test_a_removed_token_logs_nobody_in(broker: RefBroker, anne: Admin) -> None:
    first, second = anne.create_delegation_token(), anne.create_delegation_token()
    assert anne.expire_delegation_token(first.hmac, expiry_period=HOUR) < second.expiry_timestamp
    anne.expire_delegation_token(first.hmac)
    assert ids(anne.describe_delegation_token()) == [second.token_id]
    with (
        Admin(**by_token(broker, first)) as holder,
        pytest.raises(SaslAuthenticationError, match="Authentication failed"),
    ):
        holder.describe_cluster()


def test_users_see_their_own_tokens_and_others_by_acls(broker: RefBroker, root: Admin, anne: Admin) -> None:
    his = root.create_delegation_token(owner="User:bob", renewers=["User:anne"])
    hers = anne.create_delegation_token()
    roots = root.create_delegation_token()
    assert set(ids(anne.describe_delegation_token())) == {his.token_id, hers.token_id}
    assert ids(anne.describe_delegation_token("User:bob")) == [his.token_id]
    assert anne.describe_delegation_token(["User:root", "User:nobody"]) == [his]
    root.create_acls(AclBinding(AclResourceType.USER, "User:root", "User:anne", AclOperation.DESCRIBE_TOKENS))
    assert set(ids(anne.describe_delegation_token())) == {his.token_id, hers.token_id, roots.token_id}
    assert set(root.describe_delegation_token()) == {his, hers, roots}


def test_tokens_are_kept_over_a_restart(broker: RefBroker, anne: Admin) -> None:
    token = anne.create_delegation_token()
    broker.restart()
    assert anne.describe_delegation_token() == [token]
    with Admin(**by_token(broker, token)) as holder:
        holder.describe_cluster()


def test_a_client_works_beyond_its_session_when_its_token_is_renewed() -> None:
    # Each renewal allows a session a little longer than the second within which a client may not log in again.
    settings = {**SETTINGS, "delegation.token.expiry.time.ms": "1500"}
    with RefBroker(sasl=USERS, settings=settings) as broker, Admin(**as_user(broker, "anne")) as anne:
        token = anne.create_delegation_token()
        with Producer(**by_token(broker, token)) as producer:
            end = clock.monotonic() + 4
            while clock.monotonic() < end:
                anne.renew_delegation_token(token.hmac)
                producer.send("t", b"v").result(ANSWER)
            # One to bootstrap, one for the broker.
            check_connections(producer, 2)


def test_no_log_shows_the_password_of_a_token(broker: RefBroker, anne: Admin, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        token = anne.create_delegation_token()
        anne.renew_delegation_token(token.hmac)
        anne.describe_delegation_token()
        with Admin(**by_token(broker, token)) as holder:
            holder.describe_cluster()
        anne.expire_delegation_token(token.hmac)
        with pytest.raises(DelegationTokenNotFoundError) as raised:
            anne.renew_delegation_token(token.hmac)
    secret = token.hmac.reveal()
    assert secret not in caplog.text
    assert secret not in repr(raised.value)
    assert SETTINGS["delegation.token.secret.key"] not in caplog.text


@pytest.mark.anyio
async def test_the_async_client_has_the_same_methods(broker: RefBroker) -> None:
    async with AsyncAdmin(**broker.client_options) as admin:
        token = await admin.create_delegation_token(owner="User:bob", renewers=["User:root"])
        assert await admin.describe_delegation_token("User:bob") == [token]
        assert await admin.renew_delegation_token(token.hmac) >= token.expiry_timestamp
        await admin.expire_delegation_token(token.hmac)
        assert await admin.describe_delegation_token() == []


def login(options: dict[str, Any]) -> list[str]:
    return [
        argument
        for name, value in options.items()
        if name != "bootstrap_servers"
        for argument in ("--set", f"{name}={value.reveal() if hasattr(value, 'reveal') else value}")
    ]


@pytest.mark.not_simulated("runs processes of its own")
def test_tokens_on_the_command_line(broker: RefBroker, anne: Admin) -> None:
    command, options = Cli(broker.bootstrap_servers), login(as_user(broker, "anne"))
    line = command("tokens", "create", "--renewer", "User:bob", "--max-lifetime", "PT2H", *options).decode()
    token_id, secret, owner, expires, latest = line.rstrip("\n").split("\t")
    assert (owner, expires) == ("User:anne", latest)
    (token,) = anne.describe_delegation_token()
    assert (token.token_id, token.hmac.reveal()) == (token_id, secret)
    listed = command("tokens", "list", *options).decode()
    assert listed.split("\t")[:4] == [token_id, "User:anne", "User:anne", "User:bob"]
    (shown,) = json.loads(command("tokens", "list", "--owner", "User:bob", "--json", *options))
    assert shown == {
        "token_id": token_id,
        "owner": "User:anne",
        "requester": "User:anne",
        "renewers": ["User:bob"],
        "issue_timestamp": token.issue_timestamp,
        "expiry_timestamp": token.expiry_timestamp,
        "max_timestamp": token.max_timestamp,
    }
    assert secret not in listed
    made = json.loads(command("tokens", "create", "--json", *options))
    assert made["hmac"] in [each.hmac.reveal() for each in anne.describe_delegation_token()]
    renewed = command("tokens", "renew", token_id, "--period", "PT1H", *options).decode()
    assert renewed.startswith(f"{token_id}\t")
    assert secret not in renewed
    expired = command("tokens", "expire", token_id, made["token_id"], "--after", "PT1M", *options).decode()
    assert [row.split("\t")[0] for row in expired.splitlines()] == [token_id, made["token_id"]]
    command("tokens", "expire", token_id, *options)
    assert ids(anne.describe_delegation_token()) == [made["token_id"]]


@pytest.mark.not_simulated("runs processes of its own")
def test_a_failing_command_about_tokens_says_why(broker: RefBroker, root: Admin, anne: Admin) -> None:
    command, options = Cli(broker.bootstrap_servers), login(as_user(broker, "anne"))
    mine = anne.create_delegation_token()
    done = command.run("tokens", "renew", mine.token_id, "nothing", *options)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == "kclient: there is no delegation token nothing that you may see\n"
    root.create_acls(AclBinding(AclResourceType.USER, "User:root", "User:anne", AclOperation.DESCRIBE_TOKENS))
    roots = root.create_delegation_token()
    done = command.run("tokens", "expire", roots.token_id, mine.token_id, *options)
    assert (done.returncode, done.stdout.split(b"\t")[0].decode()) == (1, mine.token_id)
    assert done.stderr.decode().startswith(f"kclient: {roots.token_id}: ")
    assert command.run("tokens", "create", "--max-lifetime", "7d", *options).returncode == 2
    assert command.run("tokens", "create", "--owner", "bob", *options).returncode == 2
