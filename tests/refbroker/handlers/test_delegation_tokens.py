"""The APIs of delegation tokens: who may send them, in which order errors are found, and what responses have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio

from kclient.errors import (
    DelegationTokenAuthorizationError,
    DelegationTokenDisabledError,
    DelegationTokenExpiredError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    InvalidPrincipalTypeError,
    UnknownServerError,
    UnsupportedByAuthenticationError,
    UnsupportedVersionError,
)
from kclient.protocol import Message
from kclient.protocol.acls import AclOperation, AclPermissionType, AclResourceType, PatternType
from kclient.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kclient.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kclient.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kclient.protocol.messages.records.metadata_log import AccessControlEntryRecord, FeatureLevelRecord
from kclient.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from refbroker.handlers.registry import APIS
from refbroker.security.authorizer import STANDARD_AUTHORIZER
from refbroker.security.principals import ANONYMOUS, Principal
from tests.support.broker_harness import START_MS, Harness

DAY_MS = 86_400_000
ANNE, BOB = Principal("User", "anne"), Principal("User", "bob")
Renewer = CreateDelegationTokenRequest.CreatableRenewers
Owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
REQUESTS: list[tuple[Message, int]] = [
    (request, version)
    for request in (
        CreateDelegationTokenRequest(),
        RenewDelegationTokenRequest(),
        ExpireDelegationTokenRequest(),
        DescribeDelegationTokenRequest(),
    )
    for version in range(APIS[request.api_key].first, APIS[request.api_key].last + 1)
]
EVERY_REQUEST = pytest.mark.parametrize(
    ("request_", "version"), REQUESTS, ids=[f"{each.message_name} v{version}" for each, version in REQUESTS]
)


class Client:
    """Clients of a broker with listeners of every kind."""

    def __init__(self, directory: Path, key: str = "k3y", **settings: Any) -> None:
        kinds = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
        listeners = ",".join(f"{kind}://127.0.0.1:{port}" for port, kind in enumerate(kinds, start=9092))
        settings |= {"listeners": listeners, "delegation.token.secret.key": key}
        self.harness = Harness(directory, **settings)
        self.log_in(ANNE)

    def log_in(self, principal: Principal, listener: str = "SASL_SSL", *, by_token: bool = False) -> None:
        connection = self.harness.connection
        connection.principal, connection.listener = principal, listener
        connection.authenticator = None
        if listener.startswith("SASL"):
            connection.authenticator = SimpleNamespace(by_token=by_token, check_allowed=lambda api_key: None)

    def send(self, request: Message, version: int | None = None) -> Any:
        return self.harness.send(request, APIS[request.api_key].last if version is None else version)

    def create(self, **fields: Any) -> Any:
        return self.send(CreateDelegationTokenRequest(max_lifetime_ms=-1, **fields))

    def described(self, *owners: Principal) -> list[str]:
        """Return the ids of the tokens that the client may see, of these owners or of all."""
        asked = [Owner(principal_type=owner.type, principal_name=owner.name) for owner in owners] or None
        answer = self.send(DescribeDelegationTokenRequest(owners=asked))
        assert answer.error_code == 0
        return [token.token_id for token in answer.tokens]

    def allow(self, principal: Principal, operation: AclOperation, kind: AclResourceType, name: str) -> None:
        record = AccessControlEntryRecord(
            id=UUID(int=len(self.harness.broker.image.acls)),
            resource_type=kind,
            resource_name=name,
            pattern_type=PatternType.LITERAL,
            principal=str(principal),
            host="*",
            operation=operation,
            permission_type=AclPermissionType.ALLOW,
        )
        self.harness.broker.controller.append([record])


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    made = Client(tmp_path / "data", **{"authorizer.class.name": STANDARD_AUTHORIZER})
    yield made
    made.harness.close()


def times(answer: Any) -> tuple[int, ...]:
    """Return the times in a response, relative to the start of the test if they are later."""
    names = ("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms")
    found = [getattr(answer, name) for name in names if hasattr(answer, name)]
    return tuple(each - START_MS if each >= START_MS else each for each in found)


@EVERY_REQUEST
@pytest.mark.parametrize(
    ("principal", "listener", "by_token"),
    [(ANONYMOUS, "PLAINTEXT", False), (ANONYMOUS, "SSL", False), (ANNE, "SASL_SSL", True)],
    ids=["plaintext", "TLS without a certificate", "token"],
)
async def test_clients_that_have_not_proved_who_they_are_are_refused(
    client: Client, request_: Message, version: int, principal: Principal, listener: str, by_token: bool
) -> None:
    client.log_in(principal, listener, by_token=by_token)
    answer = client.send(request_, version)
    assert answer.error_code == UnsupportedByAuthenticationError.code
    assert set(times(answer)) <= {-1}
    if hasattr(answer, "principal_name"):
        assert (answer.principal_type, answer.principal_name) == principal


@EVERY_REQUEST
async def test_without_a_key_tokens_are_disabled(tmp_path: Path, request_: Message, version: int) -> None:
    client = Client(tmp_path / "data", key="")
    answer = client.send(request_, version)
    assert answer.error_code == DelegationTokenDisabledError.code
    assert set(times(answer)) <= {0}
    client.harness.close()


@EVERY_REQUEST
async def test_a_cluster_at_an_old_level_only_describes_tokens(client: Client, request_: Message, version: int) -> None:
    client.harness.broker.controller.append([FeatureLevelRecord(name="metadata.version", feature_level=13)])
    expected = 0 if isinstance(request_, DescribeDelegationTokenRequest) else UnsupportedVersionError.code
    assert client.send(request_, version).error_code == expected


@pytest.mark.parametrize("listener", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def test_every_proof_but_a_token_is_enough(client: Client, listener: str) -> None:
    client.log_in(ANNE, listener)
    answer = client.create()
    assert (answer.error_code, answer.principal_type, answer.principal_name) == (0, "User", "anne")
    assert times(answer) == (0, DAY_MS, 7 * DAY_MS)


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_created_token_can_be_described(client: Client, version: int) -> None:
    renewers = [Renewer(principal_type="User", principal_name=name) for name in ("bob", "carol:x")]
    created = client.send(CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=5), version)
    assert created.error_code == 0
    (found,) = client.send(DescribeDelegationTokenRequest(owners=None), version).tokens
    assert (found.token_id, found.hmac) == (created.token_id, client.harness.broker.tokens.hmac(created.token_id))
    assert found.hmac == created.hmac
    assert (found.principal_type, found.principal_name) == ANNE
    assert (found.issue_timestamp, found.expiry_timestamp, found.max_timestamp) == (
        START_MS,
        START_MS + 5,
        START_MS + 5,
    )
    assert [(each.principal_type, each.principal_name) for each in found.renewers] == [
        ("User", "bob"),
        ("User", "carol:x"),
    ]
    for answer in (created, found):
        requester = (answer.token_requester_principal_type, answer.token_requester_principal_name)
        assert requester == (ANNE if version == 3 else ("", ""))


async def test_a_token_for_another_owner_needs_an_acl_on_the_owner(client: Client) -> None:
    def answer() -> Any:
        return client.create(owner_principal_type="User", owner_principal_name="bob")

    refused = answer()
    assert refused.error_code == DelegationTokenAuthorizationError.code
    assert (refused.principal_name, refused.token_requester_principal_name) == ("bob", "anne")
    assert times(refused) == (-1, -1, -1)
    client.allow(ANNE, AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:bob")
    created = answer()
    assert (created.error_code, created.principal_name) == (0, "bob")
    # Who has requested a token sees it, and does not own it.
    assert client.described() == [created.token_id]
    mine = client.send(RenewDelegationTokenRequest(hmac=created.hmac, renew_period_ms=-1))
    assert mine.error_code == DelegationTokenOwnerMismatchError.code
    client.log_in(BOB)
    assert client.send(RenewDelegationTokenRequest(hmac=created.hmac, renew_period_ms=-1)).error_code == 0


async def test_a_client_needs_no_acl_to_name_itself_as_the_owner(client: Client) -> None:
    assert client.create(owner_principal_type="User", owner_principal_name="anne").error_code == 0
    assert client.create(owner_principal_type="Group", owner_principal_name="anne").error_code != 0
    # The type alone names nobody.
    assert client.create(owner_principal_type="Group", owner_principal_name="").principal_type == "User"


async def test_an_owner_without_a_type_fails_as_in_kafka(client: Client) -> None:
    client.log_in(ANNE, by_token=True)
    answer = client.create(owner_principal_type=None, owner_principal_name="bob")
    assert answer.error_code == UnknownServerError.code
    assert (answer.principal_name, answer.token_requester_principal_name) == ("ANONYMOUS", "ANONYMOUS")


async def test_a_renewer_that_is_no_user_is_found_before_the_missing_key_and_after_the_acl(tmp_path: Path) -> None:
    client = Client(tmp_path / "data", key="", **{"authorizer.class.name": STANDARD_AUTHORIZER})
    group = [Renewer(principal_type="Group", principal_name="g")]
    assert client.create(renewers=group).error_code == InvalidPrincipalTypeError.code
    for_bob = client.create(renewers=group, owner_principal_type="User", owner_principal_name="bob")
    assert for_bob.error_code == DelegationTokenAuthorizationError.code
    client.harness.close()


async def test_a_token_is_renewed_and_expired_by_its_hmac(client: Client) -> None:
    created = client.create()
    client.harness.clock.step(1000)
    renewed = client.send(RenewDelegationTokenRequest(hmac=created.hmac, renew_period_ms=5000))
    assert (renewed.error_code, times(renewed)) == (0, (6000,))
    expired = client.send(ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=100))
    assert (expired.error_code, times(expired)) == (0, (1100,))
    client.harness.clock.step(101)
    for request in (
        RenewDelegationTokenRequest(hmac=created.hmac),
        ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=0),
    ):
        answer = client.send(request)
        assert (answer.error_code, times(answer)) == (DelegationTokenExpiredError.code, (0,))
    removed = client.send(ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1))
    assert (removed.error_code, times(removed)) == (0, (1101,))
    gone = client.send(ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1))
    assert (gone.error_code, times(gone)) == (DelegationTokenNotFoundError.code, (0,))


async def test_owners_select_what_they_own_have_requested_or_may_renew(client: Client) -> None:
    mine = client.create(renewers=[Renewer(principal_type="User", principal_name="bob")]).token_id
    client.log_in(BOB)
    his = client.create().token_id
    assert client.described() == [mine, his]
    assert client.described(BOB) == [mine, his]
    assert client.described(ANNE) == [mine]
    assert client.described(Principal("User", "nobody")) == []
    assert client.send(DescribeDelegationTokenRequest(owners=[])).tokens == []
    client.log_in(ANNE)
    assert client.described() == [mine]


@pytest.mark.parametrize(
    ("operation", "kind"),
    [(AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN), (AclOperation.DESCRIBE_TOKENS, AclResourceType.USER)],
    ids=["by the token", "by the owner"],
)
async def test_the_tokens_of_others_need_an_acl(client: Client, operation: AclOperation, kind: AclResourceType) -> None:
    token_id = client.create().token_id
    client.log_in(BOB)
    assert client.described() == []
    client.allow(BOB, operation, kind, token_id if kind is AclResourceType.DELEGATION_TOKEN else "User:anne")
    assert client.described() == [token_id]


async def test_without_an_authorizer_everybody_sees_every_token_and_creates_for_everybody(tmp_path: Path) -> None:
    client = Client(tmp_path / "data")
    token_id = client.create(owner_principal_type="User", owner_principal_name="carol").token_id
    client.log_in(BOB)
    assert client.described() == [token_id]
    client.harness.close()
