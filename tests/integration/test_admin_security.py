"""ACLs and the credentials of users, administered by the clients and by the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kclient import Admin, AsyncAdmin, Producer
from kclient.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ScramCredentialInfo,
    ScramDeletion,
    ScramUpsertion,
)
from kclient.errors import (
    AdminError,
    ClusterAuthorizationError,
    DuplicateResourceError,
    InvalidRequestError,
    ResourceNotFoundError,
    SaslAuthenticationError,
    SecurityDisabledError,
    TopicAuthorizationError,
    UnacceptableCredentialError,
)
from refbroker.testing import RefBroker
from tests.support.command_line import Cli
from tests.support.patience import ANSWER

pytestmark = pytest.mark.refbroker_only

USERS = {"root": "r", "anne": "a"}
WRITE = AclBinding(AclResourceType.TOPIC, "orders", "User:anne", AclOperation.WRITE)
READ_ALL = AclBinding(AclResourceType.TOPIC, "*", "User:*", AclOperation.READ)
DENY_PREFIX = AclBinding(
    AclResourceType.TOPIC,
    "ord",
    "User:bob",
    AclOperation.ALL,
    AclPermissionType.DENY,
    PatternType.PREFIXED,
    "127.0.0.1",
)
GROUP = AclBinding(AclResourceType.GROUP, "readers", "User:anne", AclOperation.READ)
ALL = {WRITE, READ_ALL, DENY_PREFIX, GROUP}


@pytest.fixture
def broker() -> Iterator[RefBroker]:
    with RefBroker(sasl=USERS, acls=True) as running:
        running.create_topic("orders")
        yield running


@pytest.fixture
def root(broker: RefBroker) -> Iterator[Admin]:
    with Admin(**broker.client_options) as admin:
        yield admin


def options(broker: RefBroker, user: str, password: str | None = None) -> dict[str, Any]:
    return {**broker.client_options, "sasl_username": user, "sasl_password": password or USERS[user]}


def test_acls_are_created_described_and_deleted(root: Admin) -> None:
    assert root.create_acls(ALL) == dict.fromkeys(ALL)
    assert set(root.describe_acls()) == ALL
    root.create_acls(WRITE)  # which exists
    assert len(root.describe_acls()) == len(ALL)
    about_orders = AclBindingFilter(AclResourceType.TOPIC, "orders", pattern_type=PatternType.MATCH)
    assert set(root.describe_acls(about_orders)) == ALL - {GROUP}
    assert root.describe_acls(AclBindingFilter(AclResourceType.TOPIC, "orders")) == [WRITE]
    of_anne = AclBindingFilter(principal="User:anne")
    denied = AclBindingFilter(permission_type=AclPermissionType.DENY)
    deleted = root.delete_acls([of_anne, denied])
    assert (set(deleted[of_anne]), deleted[denied]) == ({WRITE, GROUP}, [DENY_PREFIX])
    assert root.describe_acls() == [READ_ALL]


def test_an_acl_decides_from_the_next_request_on(broker: RefBroker, root: Admin) -> None:
    with Producer(**options(broker, "anne"), enable_idempotence=False) as producer:
        with pytest.raises(TopicAuthorizationError):
            producer.send("orders", b"v").result(ANSWER)
        root.create_acls(WRITE)
        assert producer.send("orders", b"v").result(ANSWER).offset == 0


def test_an_invalid_acl_fails_alone(root: Admin) -> None:
    wrong = AclBinding(AclResourceType.TOPIC, "orders", "anne", AclOperation.READ)
    with pytest.raises(AdminError) as raised:
        root.create_acls([WRITE, wrong])
    assert raised.value.results == {WRITE: None}
    assert isinstance(raised.value.errors[wrong], InvalidRequestError)


def test_a_user_without_permission_gets_an_authorization_error(broker: RefBroker) -> None:
    with Admin(**options(broker, "anne")) as anne:
        with pytest.raises(ClusterAuthorizationError):
            anne.describe_acls()
        with pytest.raises(AdminError) as raised:
            anne.create_acls(WRITE)
        assert isinstance(raised.value.errors[WRITE], ClusterAuthorizationError)
        with pytest.raises(ClusterAuthorizationError):
            anne.describe_user_scram_credentials()


def test_a_cluster_without_an_authorizer_says_so() -> None:
    with (
        RefBroker(acls=False) as broker,
        Admin(**broker.client_options) as admin,
        pytest.raises(SecurityDisabledError, match="No Authorizer is configured"),
    ):
        admin.describe_acls()


def test_a_new_password_replaces_the_old_one(broker: RefBroker, root: Admin) -> None:
    root.alter_user_scram_credentials(ScramUpsertion("carol", "first", "SCRAM-SHA-256"))
    with Admin(**options(broker, "carol", "first")) as carol:
        carol.describe_cluster()
    root.alter_user_scram_credentials(ScramUpsertion("carol", "second", "SCRAM-SHA-256", iterations=8192))
    with Admin(**options(broker, "carol", "first")) as carol, pytest.raises(SaslAuthenticationError):
        carol.describe_cluster()
    with Admin(**options(broker, "carol", "second")) as carol:
        carol.describe_cluster()
    assert root.describe_user_scram_credentials("carol") == {"carol": (ScramCredentialInfo("SCRAM-SHA-256", 8192),)}
    assert set(root.describe_user_scram_credentials()) == {"anne", "carol", "root"}


def test_credentials_are_deleted_by_mechanism(root: Admin) -> None:
    root.alter_user_scram_credentials([ScramDeletion("anne", "SCRAM-SHA-256")])
    assert root.describe_user_scram_credentials("anne") == {"anne": (ScramCredentialInfo("SCRAM-SHA-512", 4096),)}
    with pytest.raises(AdminError) as raised:
        root.alter_user_scram_credentials([ScramDeletion("anne", "SCRAM-SHA-256"), ScramUpsertion("dora", "d")])
    assert raised.value.results == {"dora": None}
    assert isinstance(raised.value.errors["anne"], ResourceNotFoundError)
    with pytest.raises(AdminError) as raised:
        root.describe_user_scram_credentials(["nobody", "dora"])
    assert list(raised.value.results) == ["dora"]


def test_a_credential_that_the_broker_does_not_accept_is_refused(root: Admin) -> None:
    with pytest.raises(AdminError) as raised:
        root.alter_user_scram_credentials(
            [ScramUpsertion("few", "f", iterations=1000), ScramUpsertion("two", "1"), ScramUpsertion("two", "2")]
        )
    assert isinstance(raised.value.errors["few"], UnacceptableCredentialError)
    assert isinstance(raised.value.errors["two"], DuplicateResourceError)


@pytest.mark.anyio
async def test_the_async_client_has_the_same_methods(broker: RefBroker) -> None:
    async with AsyncAdmin(**broker.client_options) as admin:
        await admin.create_acls(WRITE)
        assert await admin.describe_acls() == [WRITE]
        assert await admin.delete_acls(AclBindingFilter()) == {AclBindingFilter(): [WRITE]}
        await admin.alter_user_scram_credentials(ScramUpsertion("dora", "d"))
        assert await admin.describe_user_scram_credentials("dora") == {
            "dora": (ScramCredentialInfo("SCRAM-SHA-512", 4096),)
        }


@pytest.fixture
def command(broker: RefBroker) -> Cli:
    return Cli(broker.bootstrap_servers)


def secured(broker: RefBroker) -> list[str]:
    return [
        argument
        for name, value in broker.client_options.items()
        if name != "bootstrap_servers"
        for argument in ("--set", f"{name}={value}")
    ]


@pytest.mark.not_simulated("runs processes of its own")
def test_acls_on_the_command_line(broker: RefBroker, command: Cli) -> None:
    login = secured(broker)
    anne = ("--principal", "User:anne")
    lines = command("acls", "create", *anne, "--producer", "--topic", "orders", *login).decode().splitlines()
    assert lines == [
        f"TOPIC\torders\tLITERAL\tUser:anne\tALLOW\t{operation}\t*" for operation in ("WRITE", "CREATE", "DESCRIBE")
    ]
    command("acls", "create", *anne, "--consumer", "--topic", "ord", "--group", "app", "--prefixed", *login)
    command("acls", "create", "--principal", "User:*", "--operation", "alter-configs", "--cluster", "--deny", *login)
    matching = command("acls", "list", "--topic", "orders", "--match", *login).decode().splitlines()
    assert [line.split("\t")[1] for line in matching] == ["ord", "ord", "orders", "orders", "orders"]
    found = json.loads(command("acls", "list", "--principal", "User:*", "--json", *login))
    assert found == [
        {
            "resource_type": "cluster",
            "resource_name": "kafka-cluster",
            "principal": "User:*",
            "operation": "alter_configs",
            "permission_type": "deny",
            "pattern_type": "literal",
            "host": "*",
        }
    ]
    deleted = command("acls", "delete", *anne, "--operation", "read", *login).decode().splitlines()
    assert [line.split("\t")[1] for line in deleted] == ["ord", "app"]
    command("acls", "delete", "--topic", "orders", *login)
    left = command("acls", "list", *login).decode().splitlines()
    assert [line.split("\t")[:2] for line in left] == [["TOPIC", "ord"], ["CLUSTER", "kafka-cluster"]]


@pytest.mark.not_simulated("runs processes of its own")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("delete",), "all ACLs would be deleted"),
        (("create", "--principal", "User:anne", "--operation", "read"), "name a resource"),
        (("create", "--principal", "User:anne", "--topic", "t"), "name an --operation"),
        (("create", "--principal", "User:anne", "--topic", "t", "--operation", "wirte"), "no operation 'wirte'"),
        (("create", "--principal", "User:anne", "--group", "g", "--producer"), "nothing on a group"),
    ],
    ids=["everything", "no resource", "no operation", "unknown operation", "wrong role"],
)
def test_a_wrong_command_about_acls_says_what_is_missing(arguments: tuple[str, ...], complaint: str) -> None:
    done = Cli("localhost:1").run("acls", *arguments)
    assert done.returncode == 2
    assert complaint in " ".join(done.stderr.decode().replace("│", " ").split())


@pytest.mark.not_simulated("runs processes of its own")
def test_users_on_the_command_line(broker: RefBroker, command: Cli) -> None:
    login = secured(broker)
    assert command("users", "set-password", "carol", *login, stdin=b"secret\n") == b"carol\tSCRAM-SHA-512\n"
    assert command("users", "list", "carol", *login) == b"carol\tSCRAM-SHA-512\t4096\n"
    with Admin(**{**options(broker, "carol", "secret"), "sasl_mechanism": "SCRAM-SHA-512"}) as carol:
        carol.describe_cluster()
    assert command("users", "delete", "carol", *login) == b"carol\tSCRAM-SHA-512\n"
    done = command.run("users", "list", "carol", *login)
    assert (done.returncode, done.stdout) == (1, b"")
    assert command.run("users", "set-password", "carol", *login).returncode == 2
